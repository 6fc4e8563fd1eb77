package lock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// Kind describes a lock and makes Lockers of it.
type Kind struct {
	Name     string   // as in a spec
	Summary  string   // one line
	Source   string   // book section, paper, command page
	Wakes    string   // how a waiter learns that the lock is free: "poll", "notified", ...
	Promises Promises // with default parameters
	// PromisesWith is what it promises with other parameters; nil: the same.
	PromisesWith func(param.Values) Promises
	Params       []param.Param
	// Check returns an error for parameters that are right each but not together. It may be nil.
	Check func(param.Values) error
	// Keys lists the Redis keys that the lock may leave, given the key of its name; nil means just that one.
	Keys func(key string) []string
	// Needs is the servers it needs besides the market's Redis.
	Needs Need
	// Shares says that its Lockers are SharedLockers. Promises.Shared says that readers and writers then keep out of
	// each other's way.
	Shares bool
	// OwnClock says that it reads its process's clock and not Env.Now: tests cannot set it wrong.
	OwnClock bool
	// Renews says that its leases are Renewers, so that a watchdog can be put over it.
	Renews bool
	// New makes a Locker for one worker.
	New func(Env) (Locker, error)
}

// AllKeys lists the Redis keys that the lock may leave, given the key of its name.
func (k Kind) AllKeys(key string) []string {
	if k.Keys == nil {
		return []string{key}
	}
	return k.Keys(key)
}

// A Need is a kind of server.
type Need string

// What a lock may need besides the market's Redis.
const (
	NeedsNothing   Need = ""
	NeedsMasters   Need = "redlock"   // several independent Redis masters
	NeedsZooKeeper Need = "zookeeper" // a ZooKeeper server or ensemble
	NeedsEtcd      Need = "etcd"
)

// Env is what a Locker works with.
type Env struct {
	Redis   *redis.Client                                // the worker's own connection
	Dial    func(context.Context) (*redis.Client, error) // opens one more, for renewal and subscriptions
	Key     func(name string) string                     // the key of the lock called name
	Params  param.Values
	Steps   step.Observer    // may be nil
	Now     func() time.Time // the client's wall clock; nil means time.Now
	Servers Servers
	Process *Process // what the workers of one process share; nil means that this one is alone
}

// Servers are those that a lock may need besides the market's Redis.
type Servers struct {
	// Masters open a connection to each of several independent Redis masters.
	Masters   []func(context.Context) (*redis.Client, error)
	ZooKeeper []string // host:port
	Etcd      []string // host:port
}

// now is the client's clock, which tests may set wrong.
func (e Env) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

// All lists the locks of this package in the order in which they are shown.
func All() []Kind {
	return []Kind{
		existsSet(),
		setNXExpireNaive(),
		setExFixed(),
		setExCompare(),
		getSet(),
		setNX(),
		setNXExpire(),
		setPX(),
		reentrant(),
		reentrantLocal(),
		redisson(),
		queue(),
		fenced(),
		redlock(),
		rwKeys(),
		rwHash(),
		rwSafe(),
	}
}
