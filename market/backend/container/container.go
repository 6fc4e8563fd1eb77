// Package container runs a market on Redis in a Docker container, through testcontainers. It is apart from
// package backend because of what it imports.
package container

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/redis"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	engineTimeout = 3 * time.Second  // to find that there is no Docker
	startTimeout  = 30 * time.Second // to pull the image and start it
	stopTimeout   = 10 * time.Second
)

const config = "/etc/marketsim.conf" // in the container

// DefaultImage is what a zero Starter runs.
const DefaultImage = "redis:7-alpine"

// Starter starts a container. The zero value is ready to use.
type Starter struct {
	Image string // empty means DefaultImage
}

// Name returns [backend.NameContainer].
func (Starter) Name() backend.Name { return backend.NameContainer }

// Start starts the container without persistence, pulling its image if it has to, within 30 seconds. The error
// wraps [backend.ErrUnavailable] when no Docker engine answers, which takes no longer than 3 seconds, or when the
// engine cannot run the image.
//
// It turns testcontainers' log off, which reports every step on stderr. The switch is process-wide, because
// testcontainers reports which engine it found to its default logger, whatever logger a container is given.
func (s Starter) Start(ctx context.Context) (*backend.Server, error) {
	log.SetDefault(log.NewNoopLogger())
	if err := findEngine(ctx); err != nil {
		return nil, err
	}
	image := cmp.Or(s.Image, DefaultImage)
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	password := rand.Text()
	c, err := redis.Run(starting, image,
		// In a file, because the engine shows arguments and variables to all its users, and the machine the arguments.
		testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader("requirepass " + password), ContainerFilePath: config, FileMode: 0o644,
		}),
		testcontainers.WithCmdArgs(config, "--save", "", "--appendonly", "no"),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
			c.PortBindings = network.PortMap{network.MustParsePort("6379/tcp"): {{HostIP: loopback}}}
		}))
	if err != nil {
		// Mostly an image that is not here and cannot be pulled.
		return nil, errors.Join(fmt.Errorf("%s in Docker is %w: %w", image, backend.ErrUnavailable, err), remove(c))
	}
	addr, err := c.PortEndpoint(starting, "6379/tcp", "")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("asking Docker for the port of %s: %w", image, err), remove(c))
	}
	target := backend.Target{Network: "tcp", Addr: addr, Password: password}
	return backend.NewServer(backend.NameContainer, target, image+" in Docker", func() error { return remove(c) }), nil
}

// findEngine returns within 3 seconds whether a Docker engine answers. It goes first because redis.Run would ask with
// no time limit; testcontainers keeps what it finds.
func findEngine(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	// testcontainers panics when an engine that has answered once stops answering before the time is up.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a Docker engine is %w: %v", backend.ErrUnavailable, r)
		}
	}()
	_, err = testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil { // it does not say that the time was up
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("a Docker engine is %w: %w", backend.ErrUnavailable, err)
	}
	return nil
}

// remove works after the run's context has ended, too.
func remove(c *redis.RedisContainer) error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
	if err != nil {
		return fmt.Errorf("removing the Redis container: %w", err)
	}
	return nil
}
