// Package masters starts several independent Redis masters, on which Redlock runs: none is a replica of another and
// none knows of the others.
package masters

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

// Masters are private redis-servers of this machine, ended by Close. Their methods, but for Dialers' functions, are
// not safe for concurrent use.
type Masters struct{ servers []*backend.Server }

// Start starts n masters, together, each as [backend.Local] does. The error wraps [backend.ErrUnavailable] when no
// server is installed.
func Start(ctx context.Context, n int) (*Masters, error) {
	m := &Masters{servers: make([]*backend.Server, n)}
	errs := make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() { m.servers[i], errs[i] = backend.Local{}.Start(ctx) })
	}
	starting.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, errors.Join(fmt.Errorf("starting master %d of %d (apt-get install redis-server installs it): %w",
				i+1, n, err), m.Close())
		}
	}
	return m, nil
}

// Targets says how to reach each.
func (m *Masters) Targets() []backend.Target {
	targets := make([]backend.Target, len(m.servers))
	for i, s := range m.servers {
		targets[i] = s.Target
	}
	return targets
}

// Dial connects to master i.
func (m *Masters) Dial(ctx context.Context, i int) (*backend.Conn, error) {
	return m.servers[i].Dial(ctx)
}

// PID returns the process id of master i.
func (m *Masters) PID(i int) int { return m.servers[i].PID() }

// Kill ends master i as a crash would.
func (m *Masters) Kill(i int) error { return m.servers[i].Kill() }

// Restart kills master i if it runs and starts it again at the same address. It comes back empty: nothing is kept on
// disk.
func (m *Masters) Restart(ctx context.Context, i int) error {
	s, err := backend.Local{}.Restart(ctx, m.servers[i])
	if err != nil {
		return fmt.Errorf("starting master %d again: %w", i+1, err)
	}
	m.servers[i] = s
	return nil
}

// Close ends them all.
func (m *Masters) Close() error {
	errs := make([]error, len(m.servers))
	var closing sync.WaitGroup
	for i, s := range m.servers {
		if s != nil { // it did not start
			closing.Go(func() { errs[i] = s.Close() })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}

// Dialers connect to each of several masters, for lock.Servers: those of Targets, or a user's own.
func Dialers(targets []backend.Target) []func(context.Context) (*redis.Client, error) {
	dialers := make([]func(context.Context) (*redis.Client, error), len(targets))
	for i, target := range targets {
		dialers[i] = func(ctx context.Context) (*redis.Client, error) {
			conn, err := backend.Dial(ctx, target)
			if err != nil {
				return nil, err
			}
			return conn.Client, nil
		}
	}
	return dialers
}
