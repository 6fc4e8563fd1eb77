package lock

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/param"
)

// Kind describes a lock and makes Lockers of it.
type Kind struct {
	Name    string // as in a spec
	Summary string // one line
	// Book section, paper, command page; of another module's code it begins
	// with the module.
	Source   string
	Wakes    string   // how a waiter learns that the lock is free: "poll", "notified", ...
	Promises Promises // with default parameters

	PromisesWith func(param.Values, *Promises) // changes them for other parameters; nil: nothing does
	Params       []param.Param
	// Refuses parameters that are valid alone but not together; may be nil.
	Check func(param.Values) error
	// That it may leave in Redis, given the key of its name; nil: just that one.
	Keys func(key string) []string
	// KeysBeginning says that all its keys begin with the one of its name, and that Keys may not
	// name them all.
	KeysBeginning bool
	Needs         Need
	Commands      []Command // those that it sends with some parameters and that not every server has
	// Shares says that its Lockers are SharedLockers; Promises.Shared, that readers and
	// writers exclude each other.
	Shares   bool
	OwnClock bool // it reads its process's clock and not Env.Now: tests cannot set it wrong
	Renews   bool // its leases have Renew, so that a watchdog can renew them
	// Variants are what to add to Name for parameters that change what happens when a
	// client or a server fails, such as "+watchdog" or ":expiry=pxat". The fault
	// scenarios run with the lock and with each of these.
	Variants []string
	New      func(Env) (Locker, error) // for one worker
	own      bool                      // New makes a Locker of this package: see withOwnParts
}

// AllKeys calls Keys, or returns key alone if that is nil.
func (k Kind) AllKeys(key string) []string {
	if k.Keys == nil {
		return []string{key}
	}
	return k.Keys(key)
}

// NewerCommands are those that the lock sends with these parameters and that
// not every server has.
func (k Kind) NewerCommands(v param.Values) []Command {
	return slices.DeleteFunc(slices.Clone(k.Commands), func(c Command) bool {
		return v.Text(c.of) != c.choice
	})
}

// PromisesOf is what the lock promises with these parameters.
func (k Kind) PromisesOf(v param.Values) Promises {
	p := k.Promises
	if k.PromisesWith != nil {
		k.PromisesWith(v, &p)
	}
	return p
}

// All lists the locks of this package in the order in which they are shown.
func All() []Kind {
	return []Kind{
		existsSet(), setNXFixed(), setNXExpireNaive(), setExFixed(), setExCompare(), getSet(), // wrong
		setNX(), setNXExpire(), setPX(),
		reentrant(), reentrantLocal(), redisson(),
		queue(), ticket(),
		fenced(), redlock(),
		rwNaive(), rwKeys(), rwHash(), rwSafe(),
	}
}

// Parameters of several locks, also in other packages. Equal names, defaults and
// limits make runs comparable.
var (
	PollParam = param.Duration("poll", time.Millisecond, 10*time.Microsecond,
		"wait between two attempts to take the lock").As(param.Poll)
	// TTLParam also bounds the watchdog's renewals.
	TTLParam = param.Duration("ttl", 10*time.Second, 10*time.Millisecond,
		"how long the lock is held at most without renewal").As(param.Lease)
	TimeoutParam = param.Duration("timeout", 10*time.Second, 0, "how long an acquisition may take").As(param.Timeout)
)

// A Need is a kind of server that a lock may need besides the market's Redis.
type Need string

// The needs.
const (
	NeedsNothing   Need = ""
	NeedsMasters   Need = "redlock"   // several independent Redis masters
	NeedsZooKeeper Need = "zookeeper" // a ZooKeeper server or ensemble
	NeedsEtcd      Need = "etcd"
)

// InRedis reports whether the lock is kept in Redis: in the market's, or in
// masters of its own.
func (n Need) InRedis() bool { return n == NeedsNothing || n == NeedsMasters }

// Env is what a Locker works with.
type Env struct {
	market.ClientEnv               // whose Steps is told of the steps of the lock: see package step
	Redis            *redis.Client // the worker's own connection
	// NewClient opens one more, for renewal and subscriptions.
	NewClient func(context.Context) (*redis.Client, error)
	Key       func(name string) string // the key of the lock called name
	Params    param.Values
	Servers   Servers
	Traffic   ExchangeObservers
	// What the workers of one process share; nil means that this worker is
	// alone in its process.
	Process *ProcessState
	watched bool // leases are renewed until they are released: see WithWatchdog
}

// Servers are those that a lock may need besides the market's Redis.
type Servers struct {
	Masters   []Master // several independent ones
	ZooKeeper []string // host:port
	Etcd      []string // host:port
}

// A Master is one of several Redis masters. Both functions connect to it; what their
// clients carry counts apart.
type Master struct {
	NewClient  func(context.Context) (*redis.Client, error) // for acquisitions and releases
	Background func(context.Context) (*redis.Client, error) // for renewals
}

// An Exchange is what a Locker has sent to its servers, or received.
type Exchange struct {
	RoundTrips, Commands, BytesSent, BytesReceived int64
}

// ExchangeObservers are told what a Locker exchanges with ZooKeeper or etcd; nil: nobody is.
type ExchangeObservers struct {
	Servers    func(Exchange) // of acquisitions and releases
	Background func(Exchange) // of renewals and heartbeats
}

// ProcessState is what the Lockers of one process share, such as one subscription.
// It is safe for concurrent use.
type ProcessState struct {
	mu     sync.Mutex
	shared map[string]any
}

// Share returns the value that an earlier call made for key. The first call
// makes it with create, which must not call Share: p is locked meanwhile. All calls with
// one key must be for one T.
func Share[T any](p *ProcessState, key string, create func() T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		p.shared = map[string]any{}
	}
	if p.shared[key] == nil {
		p.shared[key] = create()
	}
	return p.shared[key].(T)
}

// Close closes every io.Closer that is shared. Call it after every Locker has been closed.
func (p *ProcessState) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, value := range p.shared {
		if c, ok := value.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	p.shared = nil
	return errors.Join(errs...)
}

// polls completes the kind of a lock that waits by trying again and takes
// [PollParam]: it adds the parameters of a back-off that it does not take
// already. Its Lockers wait as locking.Retries says.
func polls(k Kind) Kind {
	k.Wakes = "poll"
	poll := slices.IndexFunc(k.Params, func(p param.Param) bool {
		return p.Name == PollParam.Name
	})
	added := []param.Param{
		locking.BackoffParam, locking.LongestWaitParam, locking.JitterParam, locking.TriesParam,
	}
	added = slices.DeleteFunc(added, func(p param.Param) bool {
		return slices.ContainsFunc(k.Params, func(own param.Param) bool {
			return own.Name == p.Name
		})
	})

	// Into a copy: kinds may have their parameters in common, as those of package library.
	k.Params = slices.Insert(slices.Clone(k.Params), poll+1, added...)
	k.Check = also(k.Check, locking.CheckBackoff)
	return k
}

// also is a check of parameters and another one after it. The first may be nil.
func also(first, then func(param.Values) error) func(param.Values) error {
	if first == nil {
		return then
	}
	return func(v param.Values) error {
		return cmp.Or(first(v), then(v))
	}
}

//go:embed *.lua
var scripts embed.FS

func script(names ...string) *redis.Script {
	return redis.NewScript(locking.ScriptText(scripts, names...))
}
