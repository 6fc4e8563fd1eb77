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
	Members []*Member
	Version string // as the first server says

	product product
}

// A product is what an Ensemble runs.
type product struct {
	name  string
	find  func() (program string, err error)
	ports int // of each server; the first is for clients

	// configure gives server i its arguments, and writes what it needs into its folder.
	configure func(m *Member, i int, ports []string) error
	// ask returns an error if the server at addr does not serve.
	ask func(ctx context.Context, addr string) (status, error)
}

// A Member is a server. Its folder outlives its process: one that is started again finds its data.
type Member struct {
	*backend.Process
	addr string // for clients, host:port
}

// status is what a server that serves says of itself.
type status struct {
	leads   bool
	version string
}

// startEnsemble starts n servers of a product, and returns when each serves.
func startEnsemble(ctx context.Context, p product, n int) (e *Ensemble, err error) {
	program, err := p.find()
	if err != nil {
		return nil, err
	}
	err = backend.OnFreePorts(ctx, n*p.ports, func(ports []string) error {
		e = &Ensemble{product: p}
		if err := e.start(ctx, program, ports); err != nil {
			return errors.Join(err, e.Close())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return e, nil
}

func (e *Ensemble) start(ctx context.Context, program string, ports []string) error {
	for i := range len(ports) / e.product.ports {
		m := &Member{&backend.Process{Name: e.product.name, Program: program}, "127.0.0.1:" + ports[i*e.product.ports]}
		m.Ready = func(ctx context.Context, _ int) error {
			s, err := e.product.ask(ctx, m.addr)
			if i == 0 && err == nil {
				e.Version = s.version
			}
			return err
		}
		e.Members = append(e.Members, m)
		err := m.MakeFolder()
		if err == nil {
			err = e.product.configure(m, i, ports)
		}
		if err != nil {
			return fmt.Errorf("configuring server %d: %w", i+1, err)
		}
	}
	// At the same time, because none serves before a majority is there.
	return each(len(e.Members), func(i int) error { return e.Members[i].Start(ctx) })
}

// Addrs are the addresses for clients, host:port, also of servers that were killed.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.Members))
	for i, m := range e.Members {
		addrs[i] = m.addr
	}
	return addrs
}

// Leader returns which server leads, and waits for an election if none does. A single server leads itself.
func (e *Ensemble) Leader(ctx context.Context) (leader int, err error) {
	err = backend.Await(ctx, pollEvery, func() error {
		for i, m := range e.Members {
			if s, err := e.product.ask(ctx, m.addr); err == nil && s.leads {
				leader = i
				return nil
			}
		}
		return fmt.Errorf("no %s server leads", e.product.name)
	})
	return leader, err
}

// Close ends all servers and removes their folders.
func (e *Ensemble) Close() error {
	return each(len(e.Members), func(i int) error { return e.Members[i].Close() })
}
