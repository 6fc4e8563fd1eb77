// Package zklock is the ZooKeeper lock. It is apart from package lock because of what it imports.
package zklock

import (
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrUnreachable is returned, wrapped, by Kind.New when no ZooKeeper server answered in time.
var ErrUnreachable = errors.New("cannot reach ZooKeeper")

const ttlDefault = 10 * time.Second

var (
	ttlParam = param.Duration("ttl", ttlDefault, 100*time.Millisecond,
		"session timeout: how long a dead holder keeps the lock; the server may make it longer or shorter")
	timeoutParam = param.Duration("timeout", 10*time.Second, 0, "how long an acquisition may take")
)

// Kind is ZooKeeper's lock recipe. A worker makes an ephemeral sequential node under the lock's node and lists them all:
// the lowest number holds the lock, and everybody else watches the one node before its own, so that a release wakes one
// waiter. To release is to delete the node. Its fence is the node's czxid, the number of the transaction that made it,
// because the sequence starts again at 0 when the lock's node is made anew.
//
// A node carries a random token in its name, by which its worker finds it when the reply to its creation was lost. The
// lock's own nodes are containers, which the server removes some time after the last node in them is gone; what is empty
// when the run ends is removed at once.
//
// It promises that only its holder releases it; that waiters get it in the order they came; that a crashed holder holds it
// no longer than its session lasts; that clients' clocks do not matter; that with an ensemble of three or more it works on
// while a minority is down. A lease's context ends when its session does, or when three quarters of the session timeout
// have passed since the last request was sent that the server has answered: a quarter before it can give the lock to
// someone else.
//
// What breaks it: a holder that is paused for longer than the session timeout between a look at its context and its write.
// Only a store that checks the fence can stop that write. A node that someone deletes by hand is missed at the release
// only. Each acquisition and each release is written to the disks of a majority of the servers.
//
// Source: ZooKeeper Recipes and Solutions, "Locks".
func Kind() lock.Kind {
	promises := lock.Promises{
		Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fair: true, Fenced: true,
		SurvivesNodeLoss: true, NoticesLoss: true,
	}
	return lock.Kind{
		Name:     "zookeeper",
		Summary:  "ephemeral sequential nodes; each waiter watches the one before; a lost session cancels the lease",
		Source:   `ZooKeeper Recipes, "Locks"`,
		Wakes:    "watch",
		Promises: promises,
		Params:   []param.Param{ttlParam, timeoutParam},
		Keys:     func(string) []string { return nil }, // nothing in Redis
		Needs:    lock.NeedsZooKeeper,
		OwnClock: true,
		New: func(env lock.Env) (lock.Locker, error) {
			servers := env.Servers.ZooKeeper
			if len(servers) == 0 {
				return nil, fmt.Errorf("%w: zookeeper needs the address of a ZooKeeper server", lock.ErrServers)
			}
			promises := promises
			promises.SurvivesNodeLoss = len(servers) >= 3 // as far as is known: an address may stand for several
			return open(env, servers, promises)
		},
	}
}
