// Package etcd runs a private etcd: one member or a cluster, the real code inside this process, over real sockets. It is
// apart from package backend because of what it imports.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	startTries   = 3
	startTimeout = 20 * time.Second
	pollEvery    = 10 * time.Millisecond
	portsEach    = 2 // for clients and for the other members
)

// Cluster is an etcd of one or more members, ended by Close. Its methods are not safe for concurrent use.
type Cluster struct {
	members []*member
	close   func() error
}

// Start starts a cluster of n members on free ports of 127.0.0.1, each in a temporary folder of its own, and returns when
// each serves. A cluster of three works on while one member is down.
//
// It writes to disk as it would in earnest: each change is synced to the log before it is answered. A lease lasts as long
// as its client asks for, in whole seconds, because the time-outs of elections allow that: see [electionTimeout].
func Start(ctx context.Context, n int) (*Cluster, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// Another process may take one of the free ports before a member does.
	for try := 1; ; try++ {
		c, err := startOnce(ctx, n)
		if err == nil || ctx.Err() != nil || try == startTries {
			return c, err
		}
	}
}

func startOnce(ctx context.Context, n int) (*Cluster, error) {
	ports, err := backend.FreePorts(ctx, n*portsEach)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	c.close = sync.OnceValue(c.end)
	for i := range n {
		m, err := newMember(i, ports)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.members = append(c.members, m)
	}
	// Together, because none serves before a majority is there.
	if err := c.each(func(m *member) error { return m.start(ctx) }); err != nil {
		return nil, errors.Join(fmt.Errorf("starting etcd: %w", err), c.Close())
	}
	return c, nil
}

// Addrs are the addresses for clients, host:port, also of members that were killed.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.members))
	for i, m := range c.members {
		addrs[i] = m.client.Host
	}
	return addrs
}

// Leader returns which member leads, and waits for an election if none does.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	for {
		for i, m := range c.members {
			if m.leads() {
				return i, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("no etcd member leads: %w", ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// Kill ends member i as a crash would: its connections are closed, and it does not hand its leadership over.
func (c *Cluster) Kill(i int) { c.members[i].kill() }

// Restart kills member i if it runs and starts it again, at the same address and with what it has on disk.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	c.members[i].kill()
	if err := c.members[i].start(ctx); err != nil {
		return fmt.Errorf("starting etcd member %d again: %w", i+1, err)
	}
	return nil
}

// Close ends all members and removes their folders. What clients have under way fails.
func (c *Cluster) Close() error { return c.close() }

func (c *Cluster) end() error { return c.each((*member).end) }

// each does something to all members together.
func (c *Cluster) each(do func(*member) error) error {
	errs := make([]error, len(c.members))
	var work sync.WaitGroup
	for i, m := range c.members {
		work.Go(func() { errs[i] = do(m) })
	}
	work.Wait()
	return errors.Join(errs...)
}
