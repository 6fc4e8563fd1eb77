// Package strategies holds the ways of making a purchase safe, one file each: optimistic locking (watch), a
// market-wide lock (coarse), a lock an item (fine), one that protects the buyer's account too (fine-wallet), and no
// protection at all (unsafe), the control.
//
// A [Strategy] makes market.Purchasers. [All] lists them; a [Spec], parsed from text such as
// "fine:setnx:poll=2ms" with [Catalogue.Parse], names one with its lock and parameters.
package strategies

import (
	"context"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// A Strategy is one way of making a purchase safe.
type Strategy struct {
	Name    string // as in a spec
	Summary string // one line
	Source  string // book section, paper, command page
	Params  []param.Param
	// Check returns an error for a spec whose lock and parameters are right each but not together. It is told the
	// catalogue in which the spec was found. It may be nil.
	Check func(Spec, Catalogue) error
	// Lock is the name of the default lock, or empty for a strategy that takes none.
	Lock string
	// Locks names the locks an operation on an item by a buyer takes (nil for a strategy that takes none), so
	// that a market can be removed by enumeration.
	Locks LockNames
	// New makes a Purchaser for one worker, and what must be closed when the worker ends (nil: nothing).
	New func(Env) (market.Purchaser, io.Closer, error)
}

// Env is what a Purchaser works with.
type Env struct {
	Redis  *redis.Client                                // the worker's own connection
	Dial   func(context.Context) (*redis.Client, error) // opens one more, for locks that need it
	Keys   market.Keys
	Locker lock.Locker // nil for a strategy that takes no lock
	Params param.Values
	Steps  step.Observer   // may be nil
	Holds  func(lock.Hold) // is told of each lock that was held, when it has been released; nil: nobody is

	// For locks only.
	// LockRedis and LockDial are for locks that live on a Redis of their own; nil means Redis and Dial.
	LockRedis *redis.Client
	LockDial  func(context.Context) (*redis.Client, error)

	Now     func() time.Time // the client's wall clock; nil means time.Now
	Servers lock.Servers     // those a lock needs besides Redis
	Process *lock.Process    // what the workers of one process share; may be nil
}

// All lists the strategies in the order in which they are shown.
func All() []Strategy {
	return []Strategy{
		watch(),
		coarse(),
		fine(),
		fineWallet(),
		unsafe(),
	}
}
