package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

// Masters are several independent Redis masters, on which Redlock runs: none is a replica of another and none knows of
// the others. A master that is started again comes back empty, because nothing is kept on disk. Their methods are not
// safe for concurrent use.
type Masters struct{ redises }

// StartMasters starts n masters.
func StartMasters(ctx context.Context, n int) (*Masters, error) {
	started, err := startRedises(ctx, n, backend.Local{}.Start)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %d masters: %w", n, backend.OfContext(ctx, err)), started.Close())
	}
	return &Masters{started}, nil
}

// Targets says how to reach each.
func (m *Masters) Targets() []backend.Target {
	targets := make([]backend.Target, len(m.redises))
	for i, s := range m.redises {
		targets[i] = s.Target
	}
	return targets
}

// Dial connects to master i.
func (m *Masters) Dial(ctx context.Context, i int) (*backend.Conn, error) {
	return m.redises[i].Dial(ctx)
}

// PID returns the process id of master i.
func (m *Masters) PID(i int) int { return m.redises[i].PID() }

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
