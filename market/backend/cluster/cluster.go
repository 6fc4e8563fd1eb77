// Package cluster starts a private Redis Cluster of six nodes: three masters, each with a replica.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	// Nodes is how many nodes a cluster has. The first half are masters to begin with.
	Nodes = 6

	startTimeout = 30 * time.Second
	pollEvery    = 20 * time.Millisecond
	// nodeTimeout is how long a node may be silent before the others call it failed and a replica takes over: short,
	// so that a scenario that kills a master goes on within two seconds.
	nodeTimeout = "500"
)

// Cluster is a Redis Cluster of this machine, ended by Close.
type Cluster struct{ nodes []*backend.Server }

// Start starts a cluster and returns when every node says that it serves and every replica follows its master. The
// error wraps [backend.ErrUnavailable] when redis-server or redis-cli is not installed.
func Start(ctx context.Context) (*Cluster, error) {
	cli, err := findCLI()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &Cluster{nodes: make([]*backend.Server, Nodes)}
	if err := c.start(ctx, cli); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// findCLI finds the program that makes a cluster of single nodes.
func findCLI() (string, error) {
	for _, name := range []string{"redis-cli", "valkey-cli"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no redis-cli or valkey-cli in PATH (apt-get install redis-tools installs it): %w",
		backend.ErrUnavailable)
}

func (c *Cluster) start(ctx context.Context, cli string) error {
	errs := make([]error, Nodes)
	var starting sync.WaitGroup
	for i := range c.nodes {
		starting.Go(func() { c.nodes[i], errs[i] = startNode(ctx) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("starting the nodes of a cluster (apt-get install redis-server installs it): %w", err)
	}
	create := append([]string{"--cluster", "create"}, c.Addrs()...)
	create = append(create, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := exec.CommandContext(ctx, cli, create...).CombinedOutput(); err != nil {
		return fmt.Errorf("redis-cli --cluster create: %w; it said:\n%s", err, lastLines(string(out)))
	}
	return c.awaitReady(ctx)
}

// awaitReady polls every node until all agree that the cluster works.
func (c *Cluster) awaitReady(ctx context.Context) error {
	for _, node := range c.nodes {
		conn, err := node.Dial(ctx)
		if err != nil {
			return err
		}
		err = await(ctx, func() error { return ready(ctx, conn) })
		conn.Close()
		if err != nil {
			return fmt.Errorf("cluster node %s is not ready: %w", node.Target.Addr, err)
		}
	}
	return nil
}

// ready says why a node does not serve yet.
func ready(ctx context.Context, conn *backend.Conn) error {
	info, err := conn.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New("its cluster_state is not ok")
	}
	replication, err := conn.Client.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if strings.Contains(replication, "role:slave") && !strings.Contains(replication, "master_link_status:up") ||
		strings.Contains(replication, "role:master") && !strings.Contains(replication, "connected_slaves:1") {
		return errors.New("replication has not begun")
	}
	return nil
}

// await polls until check returns nil or the context ends.
func await(ctx context.Context, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pollEvery):
		}
	}
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "\n")
}

// Close ends all nodes.
func (c *Cluster) Close() error {
	errs := make([]error, len(c.nodes))
	var closing sync.WaitGroup
	for i, node := range c.nodes {
		if node != nil { // it did not start
			closing.Go(func() { errs[i] = node.Close() })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}
