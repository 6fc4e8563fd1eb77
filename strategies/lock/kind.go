package lock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// Kind describes a lock and makes Lockers of it.
type Kind struct {
	Name    string // as in a spec
	Summary string // one line
	Source  string // book section, paper, command page
	Params  []param.Param
	// New makes a Locker for one worker.
	New func(Env) (Locker, error)
}

// Env is what a Locker works with.
type Env struct {
	Redis  *redis.Client                                // the worker's own connection
	Dial   func(context.Context) (*redis.Client, error) // opens one more, for renewal and subscriptions
	Key    func(name string) string                     // the key of the lock called name
	Params param.Values
	Steps  step.Observer // may be nil
}

// All lists the locks of this package in the order in which they are shown.
func All() []Kind {
	return []Kind{
		setNX(),
	}
}
