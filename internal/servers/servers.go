// Package servers starts groups of private servers, for locks that need more than the market's Redis and for
// scenarios that harm servers: independent masters ([StartMasters]), a Redis Cluster ([StartCluster]), and ensembles of
// ZooKeeper or etcd ([StartZooKeeper], [StartEtcd]). [ForLock] gives a lock what it needs.
//
// All are processes of this machine on free ports of 127.0.0.1, each in a temporary folder and a process group of its
// own, ended by Close; on Linux they end with this process however that ends. A Start function returns when its
// servers serve. Its error wraps [backend.ErrUnavailable] and names the package to install when a program is missing.
package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	startTimeout = time.Minute // a busy machine is slow
	pollEvery    = 10 * time.Millisecond
)

// each calls do with 0 to n-1, all at the same time, and joins the errors.
func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { errs[i] = do(i) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// Redises are several private redis-servers; nil stands for one that did not start. Their methods are not safe for
// concurrent use.
type Redises []*backend.Server

// StartMasters starts n independent Redis masters, on which Redlock runs: none is a replica of another and none knows
// of the others. A master that is started again comes back empty, because nothing is kept on disk.
func StartMasters(ctx context.Context, n int) (Redises, error) {
	started, err := startRedises(ctx, n, backend.Local{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %d masters: %w", n, backend.OfContext(ctx, err)), started.Close())
	}
	return started, nil
}

// startRedises starts n servers at the same time. They are returned also with an error, to be closed.
func startRedises(ctx context.Context, n int, local backend.Local) (_ Redises, err error) {
	local.Program, err = backend.Find("redis-server", "redis-server", "valkey-server")
	if err != nil { // said once
		return nil, err
	}
	started := make(Redises, n)
	return started, each(n, func(i int) (err error) {
		started[i], err = local.Start(ctx)
		return err
	})
}

// Close ends all servers.
func (r Redises) Close() error {
	return each(len(r), func(i int) error {
		if r[i] == nil {
			return nil
		}
		return r[i].Close()
	})
}

// Targets says how to reach each, also those that were killed.
func (r Redises) Targets() []backend.Target {
	targets := make([]backend.Target, len(r))
	for i, s := range r {
		targets[i] = s.Target
	}
	return targets
}

// Addrs are the addresses of the servers, host:port, also of those that were killed.
func (r Redises) Addrs() []string {
	addrs := make([]string, len(r))
	for i, s := range r {
		addrs[i] = s.Target.Addr
	}
	return addrs
}

// Dialers connect to each of several masters, for lock.Servers: those of Targets, or a user's own.
func Dialers(targets []backend.Target) []func(context.Context) (*redis.Client, error) {
	dialers := make([]func(context.Context) (*redis.Client, error), len(targets))
	for i, target := range targets {
		dialers[i] = func(ctx context.Context) (*redis.Client, error) {
			return backend.Client(backend.Dial(ctx, target))
		}
	}
	return dialers
}
