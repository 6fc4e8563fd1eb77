// Package strategies holds the ways of making a purchase safe, a file each or one for a family: optimistic
// locking (watch, watch-item), a market-wide lock (coarse), a lock for each item (fine), one that protects
// the buyer's account too (fine-wallet), one script for an operation (lua, lua-shared), and controls that
// must fail: no protection (unsafe), and others.
//
// A [Strategy] makes market.Purchasers. [All] lists them; a [Spec], parsed from text such as
// "fine:setnx:poll=2ms" with [Catalogue.Parse], names one with its lock and parameters.
package strategies

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

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
	// Check returns an error for a lock and parameters that are each valid but do not go together. The catalogue is the
	// one that the spec was found in. Check may be nil.
	Check func(Spec, Catalogue) error
	// Lock is the name of the default lock, or empty for a strategy that takes none.
	Lock string
	// Locks names the locks that an operation takes; nil for a strategy that takes none.
	Locks LockNames
	// Keys calls leaves with each key, besides those of locks, that a run may have left in a market; nil: there is none.
	Keys func(keys market.Keys, made market.Made, leaves func(key string) bool)
	// Variants are the locks of a catalogue, with parameters of this strategy, under which something else happens when
	// a client or a server fails, such as "fenced:fencing=on". The fault scenarios run with each. It may be nil.
	Variants func(Catalogue) []string
	// New makes a Purchaser for one worker, and what must be closed when the worker ends (nil: nothing).
	New func(Env) (market.Purchaser, io.Closer, error)
}

// Protection is what stays right when several workers trade at the same time.
type Protection struct {
	Items    bool // no item is sold twice, and no coin is lost
	Accounts bool // an account that several workers spend from is not overdrawn
}

// Env is what a Purchaser works with.
type Env struct {
	Redis  *redis.Client                                // the worker's own connection
	Dial   func(context.Context) (*redis.Client, error) // opens one more, for locks that need it
	Keys   market.Keys
	Locker lock.Locker // nil for a strategy that takes no lock
	Params param.Values
	Steps  step.Observer      // may be nil
	Holds  func(lock.Holding) // called for each lock that was held, after its release; may be nil

	connect func(context.Context) (net.Conn, error) // opens one more for a client of another module; nil: nothing does

	// For locks only.
	// Locks connects to a Redis of the locks' own; nil: they live at the market's.
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
		watch(),
		watchItem(),
		coarse(),
		fine(),
		fineWallet(),
		lua(),
		luaShared(),
		walletUnordered(),
		claim(),
		unsafe(),
	}
}
