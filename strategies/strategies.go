// Package strategies holds the ways of making a purchase safe, a file each or one for a
// family: optimistic locking (watch, watch-item), a market-wide lock (coarse), a lock for
// each item (fine), one for the buyer's account too (fine-wallet), one script for an
// operation (lua, lua-shared), and controls that must fail (unsafe and others).
//
// A [Strategy] makes market.Purchasers. [All] lists them; a [Spec], parsed from
// text such as "fine:setnx:poll=2ms" with [Catalogue.Parse], names one with its
// lock and parameters.
package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// A Strategy is one way of making a purchase safe.
type Strategy struct {
	Name     string // as in a spec
	Summary  string // one line
	Source   string // book section, paper, command page
	Params   []param.Param
	Protects Protection
	// Check refuses a lock and parameters that are each valid but do not go together,
	// given the catalogue that the spec was found in. It may be nil.
	Check func(Spec, Catalogue) error
	Lock  string    // the default one; empty for a strategy that takes none
	Locks LockNames // that an operation takes; nil for a strategy that takes none
	// Keys calls leaves with each key, besides those of locks, that a run may have left
	// in a market; nil: there is none.
	Keys func(keys market.Keys, made market.Made, leaves func(key string) bool)
	// Elsewhere says that programs of somebody else buy, whose commands nobody sees, on a
	// server that is theirs alone.
	Elsewhere bool
	// Variants are the locks of a catalogue, with parameters of this strategy, that the
	// fault scenarios run with, such as "fenced:fencing=on". It may be nil.
	Variants func(Catalogue) []string
	// New makes a Purchaser for one worker, and what must be closed when the
	// worker ends (nil: nothing).
	New func(Env) (market.Purchaser, io.Closer, error)
}

// Protection is what stays right when several workers trade at the same time.
type Protection struct {
	Items    bool // no item is sold twice, and no coin is lost
	Accounts bool // an account that several workers spend from is not overdrawn
}

// Env is what a Purchaser works with.
type Env struct {
	// Of the worker, from 0, among those that share its market.
	Number int
	Redis  *redis.Client                                // the worker's own connection
	Dial   func(context.Context) (*redis.Client, error) // opens one more, for locks that need it
	Keys   market.Keys
	Locker lock.Locker // nil for a strategy that takes no lock
	Params param.Values
	Steps  step.Observer      // may be nil
	Holds  func(lock.Holding) // called for each lock that was held, after its release; may be nil

	// Opens one more for a client of another module; nil: nothing does.
	connect func(context.Context) (net.Conn, error)

	// For locks only. Locks connects to a Redis of the locks' own; nil: they
	// live at the market's.
	Locks     Dialer
	lockRedis *redis.Client // the worker's own connection there; nil: Redis

	Now     func() time.Time // the client's wall clock; nil means time.Now
	Servers lock.Servers     // the servers that a lock needs besides Redis
	Traffic lock.Traffic     // where a lock counts what it exchanges with them
	Process *lock.Process    // what the workers of one process share; may be nil
}

// All lists the strategies in the order in which they are shown.
func All() []Strategy {
	return []Strategy{
		watch(), watchItem(),
		coarse(), fine(), fineWallet(),
		lua(), luaShared(),
		walletUnordered(), claim(), unsafe(), // controls
	}
}

// resendParam has a worker's clients send a command again whose reply did not come: the
// wrapper that articles put around each call of their client. go-redis does it by
// default, not with a transaction; others: docs/clients.md.
//
// What breaks it: the first copy may have been executed. SET NX then finds the client's
// own lock, and the client waits for itself (scenario lost-acquire). A script that
// writes charges twice or finds the item gone (resent). A DEL frees the next one's lock,
// and a release that compares tokens is told that the lock was lost (lost-release).
// Source: articles, whose wrapper catches the client's connection error and calls once
// more; redis.Options.MaxRetries.
var resendParam = param.Choice("resend",
	"the client sends a command again, three times at most, whose reply did not come, as a wrapper that repeats a "+
		"command after a connection error does, and go-redis by default", "off", "on")

// again makes what opens connections open some that send a command again. Nil stays nil.
func again(dial Dialer) Dialer {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context) (*redisconn.Conn, error) { return dial(redisconn.SendingAgain(ctx)) }
}

// A Dialer opens one connection.
type Dialer = func(context.Context) (*redisconn.Conn, error)

// A Connection is one worker's Purchaser with all that it works with. Close closes it.
type Connection struct {
	Purchaser market.Purchaser
	Conn      *redisconn.Conn // the worker's own, to the market
	Locks     *redisconn.Conn // its own to where its locks live: Conn, unless Env.Locks says otherwise
	Env       Env             // what the Purchaser was opened with

	redisconn.Closers // of all that was opened
}

// Connect opens a worker's connection to the market, and its Purchaser on it. Of env
// it fills in Redis and Dial. The worker's own connection counts where ctx says
// (redisconn.CountInto); what is dialled later counts into env.Traffic.Background. On
// an error nothing stays open.
func Connect(ctx context.Context, s Spec, dial Dialer, env Env) (*Connection, error) {
	c := &Connection{}
	if err := c.open(ctx, s, dial, env); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Connection) open(ctx context.Context, s Spec, dial Dialer, env Env) (err error) {
	if s.params.Text(resendParam) == "on" {
		dial, env.Locks = again(dial), again(env.Locks)
		env.Servers.Masters = slices.Clone(env.Servers.Masters)
		for i, master := range env.Servers.Masters {
			env.Servers.Masters[i] = again(master)
		}
	}
	c.Conn, err = dial(ctx)
	if err != nil {
		return err
	}
	c.Closers = append(c.Closers, c.Conn)
	c.Locks = c.Conn
	if env.Locks != nil {
		c.Locks, err = env.Locks(ctx)
		if err != nil {
			return fmt.Errorf("connect to the locks: %w", err)
		}
		c.Closers = append(c.Closers, c.Locks)
	}
	env.Redis, env.lockRedis = c.Conn.Client, c.Locks.Client
	env.Dial, env.connect = env.client(dial), c.Conn.Connect
	c.Env = env
	purchaser, closer, err := s.Open(env)
	if err != nil {
		return err
	}
	c.Purchaser, c.Closers = purchaser, append(c.Closers, closer)
	return nil
}

// client opens one more connection, which is counted as in the background.
func (e Env) client(dial Dialer) func(context.Context) (*redis.Client, error) {
	return func(ctx context.Context) (*redis.Client, error) {
		return redisconn.Client(dial(redisconn.CountInto(ctx, e.Traffic.Background)))
	}
}

// Own is the spec of your own strategy, to be measured as those of a catalogue are.
// It is opened by [Connect], as bench does. What its connections carry counts as the
// worker's own, with what its client says to introduce itself. Where a run leaves keys of
// its own, name them in the Keys of its [Strategy], and add that to a [Catalogue].
func Own(name string, open market.Open) Spec {
	return Spec{strategy: Strategy{Name: name, New: func(env Env) (market.Purchaser, io.Closer, error) {
		if env.connect == nil {
			return nil, nil, errors.New("it is opened by strategies.Connect")
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return env.connect(ctx) }
		return open.For(context.Background(), market.Worker{
			Number: env.Number, Dial: dial, Keys: env.Keys, Steps: env.Steps,
		})
	}}}
}

// OpenFor makes the Purchaser of a worker, over marketsim's own client: it is a
// market.Open. A lock takes the one server of locks that the worker has, or all
// of several as its masters.
func (s Spec) OpenFor(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
	to := func(addr string) Dialer {
		connect := func(ctx context.Context) (net.Conn, error) { return w.Dial(ctx, "tcp", addr) }
		return func(asked context.Context) (*redisconn.Conn, error) {
			return redisconn.DialOver(redisconn.Inherit(asked, ctx), connect)
		}
	}
	env := Env{Number: w.Number, Keys: w.Keys, Steps: w.Steps, Now: w.Now}
	if len(w.LockServers) == 1 {
		env.Locks = to(w.LockServers[0])
	}
	for _, addr := range w.LockServers {
		env.Servers.Masters = append(env.Servers.Masters, to(addr))
	}
	c, err := Connect(ctx, s, to(""), env)
	if err != nil {
		return nil, nil, err
	}
	return c.Purchaser, c, nil
}
