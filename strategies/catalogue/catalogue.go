// Package catalogue joins the light strategies and locks with the locks that have dependencies of their own, which
// importers of package strategies are spared. Adding such a lock takes its package and one line here.
package catalogue

import (
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock/etcdlock"
	"github.com/marketsim/marketsim/strategies/lock/redislock"
	"github.com/marketsim/marketsim/strategies/lock/redsync"
	"github.com/marketsim/marketsim/strategies/lock/rueidislock"
	"github.com/marketsim/marketsim/strategies/lock/zklock"
)

// Full returns everything that a spec may name.
func Full() strategies.Catalogue {
	c := strategies.Builtin()
	c.Locks = append(c.Locks,
		zklock.Kind(),
		etcdlock.Kind(),
		redsync.Kind(),
		redislock.Kind(),
		rueidislock.Kind(),
	)
	return c
}
