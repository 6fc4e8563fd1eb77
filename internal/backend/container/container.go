// Package container runs a market on Redis in Docker. It is apart from package
// backend because of what it imports.
package container

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/redis"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
)

const (
	engineTimeout = 3 * time.Second  // to find that there is no Docker
	startTimeout  = 30 * time.Second // to pull the image and start it
	stopTimeout   = 10 * time.Second
)

// config is a file in the container, which redis-server there gets as its first argument. The
// image runs the server as a user of its own, who has to be able to read it.
const config = "/etc/marketsim.conf"

// Starter starts a container. The zero value is ready to use.
type Starter struct {
	Image  string // empty means redis:7-alpine
	NoPull bool   // an image that is not here is not asked for
}

// Name returns [backend.OriginContainer].
func (Starter) Name() backend.Origin { return backend.OriginContainer }

// Start starts the container without persistence, pulling its image if it has to, within
// 30 seconds. The error wraps [process.ErrUnavailable] when no Docker engine answers,
// which takes no longer than 3 seconds, or when the engine cannot run the image.
//
// For the whole process it turns testcontainers' log off, and with NoPull its reaper,
// which is an image of its own. Without the reaper a killed process leaves its container
// behind, until somebody removes all that testcontainers made:
//
//	docker rm --force --volumes $(docker ps --all --quiet --filter label=org.testcontainers)
func (s Starter) Start(ctx context.Context) (*backend.Server, error) {
	log.SetDefault(log.NewNoopLogger())
	if s.NoPull { // before findEngine: testcontainers reads its environment once, for its first client
		_ = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true") // fails for no such name
	}
	engine, err := findEngine(ctx)
	if err != nil {
		return nil, err
	}
	defer engine.Close()

	image := cmp.Or(s.Image, "redis:7-alpine")
	limited, end := context.WithTimeout(ctx, startTimeout)
	defer end()
	if s.NoPull {
		if _, err := engine.ImageInspect(limited, image); err != nil {
			return nil, fmt.Errorf("%w: Docker has no image %s, and it is not pulled unasked", process.ErrUnavailable, image)
		}
	}

	starting, hooks := uncut(limited)
	password := rand.Text()
	c, err := redis.Run(starting, image,
		// In a file: the engine shows arguments and variables to all its users, and the machine
		// shows arguments to all of its own.
		testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader("requirepass " + password), ContainerFilePath: config, FileMode: 0o644,
		}),
		testcontainers.WithCmdArgs(config, "--save", "", "--appendonly", "no"),
		testcontainers.WithAdditionalLifecycleHooks(hooks),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
			c.PortBindings = network.PortMap{network.MustParsePort("6379/tcp"): {{HostIP: loopback}}}
		}))
	if err != nil {
		// Mostly an image that is not here and cannot be pulled.
		err = fmt.Errorf("%s in Docker is %w: %w", image, process.ErrUnavailable, redisconn.OfContext(limited, err))
		return nil, errors.Join(err, remove(c))
	}

	addr, err := c.PortEndpoint(starting, "6379/tcp", "")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("asking Docker for the port of %s: %w", image, err), remove(c))
	}
	target := redisconn.Target{Network: "tcp", Addr: addr, Password: password}
	return backend.NewServer(backend.OriginContainer, target, image+" in Docker", func() error { return remove(c) }), nil
}

// uncut returns the context of a start that ends as ctx does, and hooks that keep it
// from ending between the request for a container and the answer, which alone says
// what there is to be removed.
func uncut(ctx context.Context) (context.Context, testcontainers.ContainerLifecycleHooks) {
	starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)

	before := func(context.Context, testcontainers.ContainerRequest) error {
		if !stop() {
			return context.Cause(ctx)
		}
		time.AfterFunc(startTimeout, cancel) // a hung engine never answers
		return nil
	}
	after := func(context.Context, testcontainers.Container) error {
		context.AfterFunc(ctx, cancel) // from here on the start ends as ctx does again
		return ctx.Err()
	}

	return starting, testcontainers.ContainerLifecycleHooks{
		PreCreates: []testcontainers.ContainerRequestHook{before}, PostCreates: []testcontainers.ContainerHook{after},
	}
}

// findEngine returns within 3 seconds whether a Docker engine answers. It goes first
// because redis.Run would ask with no time limit; testcontainers keeps what it finds.
func findEngine(ctx context.Context) (engine *testcontainers.DockerClient, err error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()

	// testcontainers panics when an engine that has answered once stops
	// answering before the time is up.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a Docker engine is %w: %v", process.ErrUnavailable, r)
		}
	}()

	engine, err = testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil && ctx.Err() != nil { // it does not say that the time was up
		err = errors.Join(ctx.Err(), engine.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("a Docker engine is %w: %w", process.ErrUnavailable, err)
	}
	return engine, nil
}

// remove works after the run's context has ended, too.
func remove(c *redis.RedisContainer) error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := c.Terminate(ctx, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
	if err != nil && !errdefs.IsNotFound(err) { // somebody else may have removed it
		return fmt.Errorf("removing the Redis container: %w", err)
	}
	return nil
}
