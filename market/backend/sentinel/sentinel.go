// Package sentinel starts a master, its replica and the three sentinels that promote the replica when the master dies:
// the set-up on which an acknowledged write, such as a lock, is lost although every server did what it promises, because
// Redis replicates after it has answered.
package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	name   = "market" // by which the sentinels know the master
	quorum = 2
	count  = 3

	startTimeout = 30 * time.Second
	pollEvery    = 20 * time.Millisecond
	// downAfter is how long a master may be silent before it is called down: short, so that a scenario goes on within
	// two seconds, and long enough for a busy machine.
	downAfter = 500 * time.Millisecond
	// failoverTimeout bounds the steps of a failover; after twice this time a failed one is tried again.
	failoverTimeout = 3 * time.Second

	// replicaUser is whom the replica logs in as, so that it can be kept out and nobody else.
	replicaUser = "replica"
)

// A Trio is a master, a replica and three sentinels, processes of this machine that Close ends. It is good for one
// failover. Its methods are not safe for concurrent use, but for Master and Dial.
type Trio struct {
	master, replica *backend.Server
	sentinels       []*watcher
	cut             time.Time // when replication was; zero: it was not
}

// Start starts a trio and returns, after about two seconds, when the replica follows and every sentinel knows of it and of
// the other sentinels. The error wraps [backend.ErrUnavailable] when no redis-server is installed.
func Start(ctx context.Context) (*Trio, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	t := &Trio{}
	if err := t.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a master with Sentinel (apt-get install redis-server installs it): %w",
			err), t.Close())
	}
	return t, nil
}

func (t *Trio) start(ctx context.Context) (err error) {
	user := []string{"--user", replicaUser, "on", "nopass", "+psync", "+replconf", "+ping", "--repl-diskless-sync-delay", "0"}
	if t.master, err = (backend.Local{Args: user}).Start(ctx); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(t.master.Target.Addr)
	if err != nil {
		return err
	}
	follow := append(user, "--replicaof", host, port, "--masteruser", replicaUser, "--masterauth", "any")
	if t.replica, err = (backend.Local{Args: follow}).Start(ctx); err != nil {
		return err
	}
	// A sentinel looks for replicas when it starts, and then every ten seconds only.
	if err := t.caughtUp(ctx); err != nil {
		return err
	}
	t.sentinels = make([]*watcher, count)
	errs := make([]error, count)
	var starting sync.WaitGroup
	for i := range count {
		starting.Go(func() { t.sentinels[i], errs[i] = startWatcher(ctx, host, port) })
	}
	starting.Wait()
	for _, w := range t.sentinels {
		if w != nil { // it did not start
			errs = append(errs, await(ctx, func() error { return w.ready(ctx) }))
		}
	}
	return errors.Join(errs...)
}

// Master asks a sentinel where the master is, as clients do.
func (t *Trio) Master(ctx context.Context) (backend.Target, error) {
	var errs []error
	for _, w := range t.sentinels {
		addr, err := w.master(ctx)
		if err == nil {
			return backend.Target{Network: "tcp", Addr: addr}, nil
		}
		errs = append(errs, err)
	}
	return backend.Target{}, fmt.Errorf("no sentinel says where the master is: %w", errors.Join(errs...))
}

// Dial connects to what a sentinel says is the master.
func (t *Trio) Dial(ctx context.Context) (*backend.Conn, error) {
	target, err := t.Master(ctx)
	if err != nil {
		return nil, err
	}
	return backend.Dial(ctx, target)
}

// Close ends them all.
func (t *Trio) Close() error {
	var errs []error
	for _, w := range t.sentinels {
		if w != nil {
			errs = append(errs, w.close())
		}
	}
	for _, s := range []*backend.Server{t.replica, t.master} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
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
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pollEvery):
		}
	}
}

// replication returns the fields of a server's INFO replication.
func replication(ctx context.Context, s *backend.Server) (map[string]string, error) {
	conn, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	text, err := conn.Client.Info(ctx, "replication").Result()
	if err != nil {
		return nil, fmt.Errorf("asking %s for INFO replication: %w", s.Target.Addr, err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if field, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[field] = value
		}
	}
	return fields, nil
}
