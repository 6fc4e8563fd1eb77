package fault

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/masters"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// open connects and opens the Purchaser.
func (c *client) open(cast casting, subjects func(string) (Purchasing, error)) (closer func() error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	subject, err := subjects(cast.Subject)
	if err != nil {
		return nil, err
	}
	keys, err := market.NewKeys(cast.Prefix)
	if err != nil {
		return nil, err
	}
	dial := dialer(cast.Market, cast.Resend)
	lockDial := dial
	if cast.Locks != nil {
		lockDial = dialer(*cast.Locks, cast.Resend)
	}
	rdb, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	locks, err := lockDial(ctx)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	process := new(lock.Process)
	purchaser, opened, err := subject.Open(strategies.Env{
		Redis: rdb, Dial: dial, LockRedis: locks, LockDial: lockDial, Keys: keys, Process: process,
		Steps: c.gate.observe, Now: func() time.Time { return time.Now().Add(cast.Clock) },
		Servers: cast.servers(),
	})
	if err != nil {
		return nil, errors.Join(err, rdb.Close(), locks.Close())
	}
	c.purchaser, c.accounts = purchaser, cast.Accounts
	return func() error {
		return errors.Join(opened.Close(), process.Close(), locks.Close(), rdb.Close())
	}, nil
}

func (cast casting) servers() lock.Servers {
	targets := make([]backend.Target, len(cast.Masters))
	for i, m := range cast.Masters {
		targets[i] = m.target()
	}
	return lock.Servers{Masters: masters.Dialers(targets), ZooKeeper: cast.ZooKeeper, Etcd: cast.Etcd}
}

// dialer connects as every client of marketsim does, or as go-redis does by default when a command is to be sent again.
func dialer(e endpoint, resend bool) func(context.Context) (*redis.Client, error) {
	return func(ctx context.Context) (*redis.Client, error) {
		conn, err := backend.Dial(ctx, e.target())
		if err != nil || !resend {
			return clientOf(conn), err
		}
		options := *conn.Options()
		options.MaxRetries = defaultRetries
		return redis.NewClient(&options), conn.Close()
	}
}

// defaultRetries is how often go-redis sends a command again when nobody says otherwise.
const defaultRetries = 3

func clientOf(conn *backend.Conn) *redis.Client {
	if conn == nil {
		return nil
	}
	return conn.Client
}
