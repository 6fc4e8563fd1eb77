package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/marketsim/marketsim/market/backend"
)

// An Ensemble is one or more servers of ZooKeeper or etcd, which elect a leader. One of three works on while a server
// is down. The servers write to disk as in production: each change is synced to the log before it is answered.
// The methods are not safe for concurrent use.
type Ensemble struct {
	product product
	members []*member
	version string
}

// A product is what an Ensemble runs.
type product struct {
	name  string
	ports int // of each server; the first is for clients

	// configure gives server i its arguments, and writes what it needs into its folder.
	configure func(m *member, i int, ports []string) error
	// ask returns an error if the server at addr does not serve.
	ask func(ctx context.Context, addr string) (status, error)
}

// status is what a server that serves says of itself.
type status struct {
	leads   bool
	version string
}

// startEnsemble starts n servers of a product, and returns when each serves.
func startEnsemble(ctx context.Context, p product, program string, n int) (*Ensemble, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var e *Ensemble
	err := backend.OnFreePorts(ctx, n*p.ports, func(ports []string) error {
		e = &Ensemble{product: p}
		err := e.start(ctx, program, ports)
		if err != nil {
			err = errors.Join(err, e.Close())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, backend.OfContext(ctx, err))
	}
	return e, nil
}

func (e *Ensemble) start(ctx context.Context, program string, ports []string) error {
	for i := range len(ports) / e.product.ports {
		m, err := newMember(program, e.product.name, local(ports[i*e.product.ports]))
		if err != nil {
			return err
		}
		e.members = append(e.members, m)
		if err := e.product.configure(m, i, ports); err != nil {
			return fmt.Errorf("configuring server %d: %w", i+1, err)
		}
	}
	// At the same time, because none serves before a majority is there.
	return each(len(e.members), func(i int) error { return e.startOne(ctx, i) })
}

// startOne starts server i and returns when it serves.
func (e *Ensemble) startOne(ctx context.Context, i int) error {
	m := e.members[i]
	return m.start(ctx, func() error {
		s, err := e.product.ask(ctx, m.addr)
		if i == 0 && err == nil {
			e.version = s.version
		}
		return err
	})
}

// Version is what the first server says is its version.
func (e *Ensemble) Version() string { return e.version }

// Addrs are the addresses for clients, host:port, also of servers that were killed.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.members))
	for i, m := range e.members {
		addrs[i] = m.addr
	}
	return addrs
}

// Leader returns which server leads, and waits for an election if none does. A single server leads itself.
func (e *Ensemble) Leader(ctx context.Context) (leader int, err error) {
	err = backend.Await(ctx, pollEvery, func() error {
		for i, m := range e.members {
			if s, err := e.product.ask(ctx, m.addr); err == nil && s.leads {
				leader = i
				return nil
			}
		}
		return fmt.Errorf("no %s server leads", e.product.name)
	})
	return leader, err
}

// PID returns the process id of server i.
func (e *Ensemble) PID(i int) int { return e.members[i].process.PID() }

// Kill ends server i as a crash would.
func (e *Ensemble) Kill(i int) error { return e.members[i].kill() }

// Restart kills server i if it runs and starts it again, at the same address and with what it has on disk. It returns
// when the server serves.
func (e *Ensemble) Restart(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := e.Kill(i)
	if err == nil {
		err = e.startOne(ctx, i)
	}
	if err != nil {
		return fmt.Errorf("starting %s server %d again: %w", e.product.name, i+1, err)
	}
	return nil
}

// Close ends all servers and removes their folders.
func (e *Ensemble) Close() error {
	return each(len(e.members), func(i int) error { return e.members[i].close() })
}
