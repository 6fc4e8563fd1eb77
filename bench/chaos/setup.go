package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend"
)

const (
	settleTimeout = 30 * time.Second
	settlePoll    = 5 * time.Millisecond
)

// A Setup is a private redis-server whose data outlives its process, and the proxies by which workers reach it, which
// faults name lines. The server writes every change to disk before it answers (appendonly yes, appendfsync always), so
// that a crash shows the fault of a strategy, and not of a server that forgot what it had promised.
//
// It may be a Redis Cluster instead, whose masters workers connect to themselves and follow, and which keeps nothing on disk:
// a replica takes the place of a master that dies.
type Setup struct {
	server  *backend.Server
	cluster *servers.Cluster // nil: it is a single server
	market  string           // a key of the market's
	proxies []*wire.Proxy
	dials   atomic.Int64
}

// Start starts the server and its proxies. The error wraps backend.ErrUnavailable when no redis-server is installed.
func Start(ctx context.Context) (*Setup, error) {
	server, err := backend.Local{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}}.Start(ctx)
	if err != nil {
		return nil, err
	}
	s := &Setup{server: server}
	for range lines {
		p, err := wire.Start(server.Target.Addr)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.proxies = append(s.proxies, p)
	}
	return s, nil
}

// StartCluster starts a Redis Cluster in place of the server. The errors are those of servers.StartCluster.
func StartCluster(ctx context.Context) (*Setup, error) {
	cluster, err := servers.StartCluster(ctx)
	if err != nil {
		return nil, err
	}
	return &Setup{server: cluster.Server(), cluster: cluster}, nil
}

// Server is the server, which keeps its address when it is restarted.
func (s *Setup) Server() *backend.Server { return s.server }

// Direct connects to the market's server past the proxies, for audits.
func (s *Setup) Direct(ctx context.Context) (*backend.Conn, error) {
	return s.server.Dialer(s.market)(ctx)
}

// Dial connects a worker by one proxy after the other, if there are any.
func (s *Setup) Dial(ctx context.Context) (*backend.Conn, error) {
	if s.cluster != nil {
		return s.Direct(ctx)
	}
	i := int(s.dials.Add(1)-1) % len(s.proxies)
	return backend.Dial(ctx, s.proxies[i].Target())
}

// Settle returns when nothing that workers have sent can still arrive: it closes their connections and waits until the
// server has read them to the end. It is for workers at rest, on a server that answers.
func (s *Setup) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if s.cluster != nil {
		return s.cluster.Disconnect(ctx)
	}
	if err := stop(s.proxies); err != nil {
		return err
	}
	if err := s.awaitSilence(ctx); err != nil {
		return fmt.Errorf("waiting until the server has read what clients had sent: %w", err)
	}
	return start(s.proxies)
}

// stop closes all connections of the proxies, and refuses new ones.
func stop(proxies []*wire.Proxy) error { return each(proxies, (*wire.Proxy).Stop) }

// start lets connections be made again.
func start(proxies []*wire.Proxy) error { return each(proxies, (*wire.Proxy).Restart) }

func each(proxies []*wire.Proxy, do func(*wire.Proxy) error) error {
	var errs []error
	for _, p := range proxies {
		errs = append(errs, do(p))
	}
	return errors.Join(errs...)
}

// awaitSilence waits until the server knows no client but this one.
func (s *Setup) awaitSilence(ctx context.Context) error {
	conn, err := s.Direct(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		clients, err := conn.ClientList(ctx).Result()
		if err != nil {
			return err
		}
		if strings.Count(strings.TrimSpace(clients), "\n") == 0 {
			return nil
		}
		select {
		case <-time.After(settlePoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the proxies and the server, and removes its data. It may be called more than once.
func (s *Setup) Close() error {
	return errors.Join(each(s.proxies, (*wire.Proxy).Close), s.server.Close())
}
