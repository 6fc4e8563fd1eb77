// Package catalogue joins the light strategies and locks with the locks that have
// dependencies of their own, which importers of package strategies are spared. Adding
// such a lock takes its package and one line here.
package catalogue

import (
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock/library"
	"github.com/marketsim/marketsim/strategies/lock/session"
)

// Full returns everything that a spec may name.
func Full() strategies.Catalogue {
	c := strategies.Builtin()
	c.Locks = append(c.Locks, session.ZooKeeper(), session.Etcd())
	c.Locks = append(c.Locks, library.Redsync(), library.Redislock())
	return c
}
