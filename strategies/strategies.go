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

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
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
	Keys func(keys market.Keys, made market.RunNote, leaves func(key string) bool)
	// Elsewhere says that programs of somebody else buy, whose commands nobody sees, on a
	// server that is theirs alone.
	Elsewhere bool
	// Script is the text of an [OwnScript]; empty: it is none.
	Script string
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
	market.ClientEnv
	Keys   market.Keys
	Locker lock.Locker // nil for a strategy that takes no lock
	Params param.Values
	Holds  func(lock.Holding) // called for each lock that was held, after its release; may be nil

	Redis *redis.Client // the worker's own connection
	// NewClient opens one more, which counts as in the background.
	NewClient func(context.Context) (*redis.Client, error)
	// SharedClient opens a client that all workers of a process share, and that pipelines
	// what they send; nil: the Purchaser cannot have one.
	SharedClient func(context.Context) (*redis.Client, error)

	// For locks only.
	LockRedis     *redis.Client                                // as Redis, to where locks live; nil: Redis
	NewLockClient func(context.Context) (*redis.Client, error) // as NewClient; nil: NewClient
	Servers       lock.Servers                                 // the servers that a lock needs besides Redis
	Traffic       lock.ExchangeObservers                       // where a lock counts what it exchanges with them
	Process       *lock.ProcessState                           // what the workers of one process share; may be nil
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
var resendParam = param.OneOf("resend",
	"the client sends a command again, three times at most, whose reply did not come, as a wrapper that repeats a "+
		"command after a connection error does, and go-redis by default", "off", "on")

// Resends reports whether clients of the spec send a command again whose reply did not
// come.
func (s Spec) Resends() bool { return s.params.Text(resendParam) == "on" }

// Own is the spec of your own strategy, to be measured as those of a catalogue are.
// What its connections carry counts as the worker's own, with what its client says to
// introduce itself. If a run leaves keys of its own, name them in the Keys of its
// [Strategy], and add that to a [Catalogue].
func Own(name string, open market.Open) Spec {
	return Spec{strategy: Strategy{Name: name, New: func(env Env) (market.Purchaser, io.Closer, error) {
		if env.Dial == nil {
			return nil, nil, errors.New("its Env has no Dial, by which its client could connect")
		}
		return open.For(context.Background(), market.Worker{ClientEnv: env.ClientEnv, Keys: env.Keys})
	}}}
}

// OpenFor makes the Purchaser of a worker, over marketsim's own client: it is a
// market.Open. A lock takes the one server of locks that the worker has, or all
// of several as its masters. Package connect fills an Env in the same way for marketsim's own
// workers, and counts what they send.
func (s Spec) OpenFor(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
	// By the worker's Dial an address of LockServers is that server, and any other, such as "",
	// the market's.
	to := func(addr string) redisconn.Dialer {
		dialer := redisconn.Over(func(ctx context.Context) (net.Conn, error) {
			return w.Dial(ctx, "tcp", addr)
		})
		dialer = dialer.WithReplyTimeout(w.ReplyTimeout)
		if w.Resends || s.Resends() {
			return dialer.WithResends()
		}
		return dialer
	}

	env := Env{ClientEnv: w.ClientEnv, Keys: w.Keys, SharedClient: to("").WithPipelining().Client}
	for _, addr := range w.LockServers {
		env.Servers.Masters = append(env.Servers.Masters, lock.Master{
			NewClient: to(addr).Client, Background: to(addr).Client,
		})
	}

	// For the strategy's own requests. Renewals, subscriptions and a shared pipeline dial for
	// themselves.
	var opened redisconn.Closers
	own, err := to("").Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	opened = append(opened, own)
	env.Redis = own.Client
	env.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return own.Connect(ctx)
	}
	env.NewClient = to("").Client

	if len(w.LockServers) == 1 {
		locks, err := to(w.LockServers[0]).Dial(ctx)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("connect to the locks: %w", err), opened.Close())
		}
		opened = append(opened, locks)
		env.LockRedis = locks.Client
		env.NewLockClient = to(w.LockServers[0]).Client
	}

	purchaser, closer, err := s.Open(env)
	if err != nil {
		return nil, nil, errors.Join(err, opened.Close())
	}
	return purchaser, append(opened, closer), nil
}
