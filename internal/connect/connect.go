// Package connect connects one worker, and opens its Purchaser: it knows where the market
// and its locks live, and where each connection counts what it carries. bench, fault and
// the command use it. Somebody else's worker is connected by what it is given, see
// [strategies.Spec.OpenFor].
package connect

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// MarketServers are where a market is, and what its locks need.
type MarketServers struct {
	Market redisconn.Dialer
	Locks  redisconn.Dialer // to where locks live; the zero value: they live in the market's server

	// That some locks need besides.
	Masters   []redisconn.Dialer // independent Redis masters
	ZooKeeper []string           // host:port
	Etcd      []string           // host:port
}

// Counters are where a worker's connections count; nil: each for itself, or nothing.
type Counters struct {
	Market      *redisconn.Stats // the worker's own connections: to the market, and to MarketServers.Locks
	LockServers *redisconn.Stats // acquisitions and releases on Masters, ZooKeeper and Etcd
	Background  *redisconn.Stats // renewals, heartbeats, subscriptions
}

// Opened is one worker's Purchaser with all that it works with. Close closes it.
type Opened struct {
	Purchaser market.Purchaser
	Conn      *redisconn.Conn // the worker's own, to the market
	Locks     *redisconn.Conn // its own to where its locks live, which may be Conn
	Env       strategies.Env  // what the Purchaser was opened with

	redisconn.Closers // of all that was opened
}

// Open opens a worker's connection to the market, and its Purchaser on it. Of env it fills
// in what connects. On an error nothing stays open.
func Open(ctx context.Context, spec strategies.Spec, s MarketServers, t Counters, env strategies.Env) (*Opened, error) {
	w := &Opened{}
	if spec.Resends() {
		s = s.Each(redisconn.Dialer.WithResends)
	}
	if err := w.open(ctx, spec, s, t, env); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Each changes how each Redis server is dialled.
func (s MarketServers) Each(change func(redisconn.Dialer) redisconn.Dialer) MarketServers {
	s.Market = change(s.Market)
	if !s.Locks.IsZero() {
		s.Locks = change(s.Locks)
	}
	// A slice of its own: the caller's servers stay as they are.
	masters := make([]redisconn.Dialer, len(s.Masters))
	for i, m := range s.Masters {
		masters[i] = change(m)
	}
	s.Masters = masters
	return s
}

// open connects a worker, and opens its Purchaser. What it has opened before an error is in
// w.Closers, for who calls it to close. These close the last one first: the Purchaser, then
// the connections on which it works.
func (w *Opened) open(
	ctx context.Context, spec strategies.Spec, s MarketServers, t Counters, env strategies.Env,
) (err error) {
	w.Conn, err = s.Market.WithStats(t.Market).Dial(ctx)
	if err != nil {
		return err
	}
	w.Closers = append(w.Closers, w.Conn)

	w.Locks = w.Conn
	if !s.Locks.IsZero() {
		w.Locks, err = s.Locks.WithStats(t.Market).Dial(ctx)
		if err != nil {
			return fmt.Errorf("connect to the locks: %w", err)
		}
		w.Closers = append(w.Closers, w.Locks)
		env.LockRedis = w.Locks.Client
		env.NewLockClient = s.Locks.WithStats(t.Background).Client
	}

	// These count as w.Conn does: they are the worker's own.
	env.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return w.Conn.Connect(ctx) }
	env.Redis = w.Conn.Client

	// Renewals and notifications have connections of their own, which are counted apart: they are
	// no round trips of a purchase.
	env.NewClient = s.Market.WithStats(t.Background).Client
	env.SharedClient = s.Market.WithPipelining().Client // counts for itself, see WithStats
	env.Servers = s.ForLocks(t)
	env.Traffic = lock.ExchangeObservers{Servers: into(t.LockServers), Background: into(t.Background)}
	w.Env = env

	purchaser, closer, err := spec.Open(env)
	if err != nil {
		return err
	}
	w.Purchaser = purchaser
	w.Closers = append(w.Closers, closer)
	return nil
}

// ForLocks are the servers that some locks need, as a lock gets them.
func (s MarketServers) ForLocks(t Counters) lock.Servers {
	servers := lock.Servers{ZooKeeper: s.ZooKeeper, Etcd: s.Etcd}
	for _, m := range s.Masters {
		servers.Masters = append(servers.Masters, lock.Master{
			NewClient:  m.WithStats(t.LockServers).Client,
			Background: m.WithStats(t.Background).Client,
		})
	}
	return servers
}

// into counts what a lock exchanges; nil: nothing does.
func into(s *redisconn.Stats) func(lock.Exchange) {
	if s == nil {
		return nil
	}
	return func(e lock.Exchange) { s.Count(redisconn.Counts(e)) }
}
