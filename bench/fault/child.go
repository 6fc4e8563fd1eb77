package fault

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/child"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// childRole is the role of a process that is a client in a scenario.
const childRole = "fault"

// The parent and a child talk in lines of JSON: one clientConfig, then commands down, and events up.

// clientConfig is what a child gets when it starts.
type clientConfig struct {
	Scheme    string
	Prefix    string
	Accounts  int
	Market    endpoint
	Locks     *endpoint // where the locks live, if that is not the market's server
	Masters   []endpoint
	ZooKeeper []string
	Etcd      []string
	Clock     time.Duration // how far its wall clock is ahead
	Replicas  int           // how many must have the locks before it reads: it asks with WAIT
	Resend    bool          // its client sends a command again by itself, as go-redis does by default
	Confirm   int           // how many replicas must have a purchase before it is told as made: it asks with WAIT
}

// endpoint is a private server, which has neither password nor TLS.
type endpoint struct {
	Network, Addr string
	Cluster       bool // a node of a cluster: clients follow the master of the market's slot
}

func endpointOf(t backend.Target) endpoint { return endpoint{Network: t.Network, Addr: t.Addr} }

func (e endpoint) target() backend.Target { return backend.Target{Network: e.Network, Addr: e.Addr} }

// The commands that a child gets.
const (
	doList   = "list"
	doBuy    = "buy"
	doBrowse = "browse" // under a shared lock
	doDraw   = "draw"   // if it gets the lock at the first try
	doGo     = "go"     // from where it is held
	doFree   = "free"   // from where it is held, and be held nowhere else
)

type command struct {
	Do      string
	Listing market.Listing
	Order   market.Order
	Lock    string       // of a draw
	Keep    bool         // the lock of a draw
	Hold    []step.Point // where it is held, once each
}

// event is what a child reports; one of its fields is set, and Late or Lacks beside Error.
type event struct {
	Ready bool      // its Purchaser is open
	At    step.Name // it is held there
	Done  *Outcome
	Error string // it cannot go on
	Late  bool   // Error is a time-out, which a faster machine does not meet
	Lacks bool   // Error is that the lock does not work on these servers
}

// Outcome is what a client's operation returned.
type Outcome struct {
	Reason    string // why it was refused, as market.Reason names it
	Error     string // any error's text
	LeaseLost bool   // as in market.Receipt
	Torn      bool   // of a browse: the item was not in exactly one place
}

// Applied reports whether the operation was applied for sure.
func (o Outcome) Applied() bool { return o.Error == "" }

// Unknown reports whether the client does not know if the operation was applied.
func (o Outcome) Unknown() bool { return o.Error != "" && o.Reason == "" }

func outcomeOf(r market.Receipt, err error) *Outcome {
	o := &Outcome{Reason: market.Reason(err), LeaseLost: r.LeaseLost}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

// String describes an outcome to a reader.
func (o Outcome) String() string {
	switch {
	case o.Applied():
		return "applied"
	case o.Unknown():
		return fmt.Sprintf("unknown (%s)", o.Error)
	}
	return "refused: " + o.Reason
}

// ServeChild acts as a client if this process was started to be one, and then ends the process. In any other process it
// returns at once. schemes finds the scheme of a name, as in Scheme.String.
func ServeChild(schemes func(name string) (Purchasing, error)) {
	child.Serve(childRole, func(in io.Reader, out io.Writer) error { return serve(in, out, schemes) })
}

// served is a client, seen from its own process.
type served struct {
	purchaser market.Purchaser
	openLock  func() (lock.Locker, error) // one more Locker; nil: of a scheme without one
	locker    lock.Locker                 // of draws; nil: none was made
	accounts  int
	replicas  int
	locks     *redis.Client
	gate      atomic.Pointer[step.Gate] // of the operation under way; nil: none was begun

	mu  sync.Mutex
	out *json.Encoder
}

// serve is one client until its input ends.
func serve(in io.Reader, out io.Writer, schemes func(string) (Purchasing, error)) error {
	lines := json.NewDecoder(bufio.NewReader(in))
	c := &served{out: json.NewEncoder(out)}
	var config clientConfig
	if err := lines.Decode(&config); err != nil {
		return fmt.Errorf("read the client's configuration: %w", err)
	}
	closer, err := c.open(config, schemes)
	if err != nil {
		c.report(event{Error: err.Error(), Lacks: errors.Is(err, lock.ErrServers)})
		return err
	}
	c.report(event{Ready: true})
	var working sync.WaitGroup
	for {
		var cmd command
		if err := lines.Decode(&cmd); err != nil {
			c.free()
			working.Wait()
			return closer()
		}
		switch cmd.Do {
		case doGo:
			if g := c.gate.Load(); g != nil {
				g.Next()
			}
		case doFree:
			c.free()
		default:
			c.gate.Store(step.HoldEach(func(at step.Name) { c.report(event{At: at}) }, cmd.Hold...))
			working.Go(func() { c.work(cmd) })
		}
	}
}

// observe holds the operation at its points, whatever its context says. A lock may call steps before the first one
// begins.
func (c *served) observe(ctx context.Context, at step.Name) {
	if at == step.Acquired && c.replicas > 0 {
		if n, err := c.locks.Wait(ctx, c.replicas, replicasTimeout).Result(); err != nil || n < int64(c.replicas) {
			c.report(event{Error: fmt.Sprintf("%d replicas have the lock, want %d: %v", n, c.replicas, err)})
		}
	}
	if g := c.gate.Load(); g != nil {
		g.Observe(context.WithoutCancel(ctx), at)
	}
}

// free lets the operation go on to its end.
func (c *served) free() {
	if g := c.gate.Load(); g != nil {
		g.Open()
	}
}

func (c *served) report(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(e) // a parent that is gone ends the input, too
}

func (c *served) work(cmd command) {
	ctx := context.Background()
	switch cmd.Do {
	case doList:
		c.report(event{Done: outcomeOf(c.purchaser.List(ctx, cmd.Listing))})
	case doBuy:
		c.report(event{Done: outcomeOf(c.purchaser.Purchase(ctx, cmd.Order))})
	case doBrowse:
		browser, ok := c.purchaser.(market.Browser)
		if !ok {
			c.report(event{Error: "cannot browse"})
			return
		}
		seen, receipt, err := browser.Browse(ctx, cmd.Listing, c.accounts)
		o := outcomeOf(receipt, err)
		o.Torn = seen.Torn
		c.report(event{Done: o})
	case doDraw:
		err := c.draw(ctx, cmd)
		if err != nil && !errors.Is(err, lock.ErrHeld) {
			late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
			c.report(event{Error: err.Error(), Late: late})
			return
		}
		c.report(event{Done: outcomeOf(market.Receipt{}, err)})
	default:
		c.report(event{Error: fmt.Sprintf("unknown command %q", cmd.Do)})
	}
}

// draw tries a lock once, and draws if it gets it; the error says why it did not, or that it did not release the lock.
func (c *served) draw(ctx context.Context, cmd command) error {
	if c.locker == nil {
		if c.openLock == nil {
			return errors.New("it has no lock to try")
		}
		var err error
		if c.locker, err = c.openLock(); err != nil {
			return err
		}
	}
	lease, err := c.locker.Try(ctx, cmd.Lock)
	if err != nil {
		return err
	}
	c.observe(ctx, step.Acquired)
	if cmd.Keep {
		return nil
	}
	if err := lease.Release(ctx); !errors.Is(err, lock.ErrLost) {
		return err
	}
	return nil
}

// open connects and opens the Purchaser.
func (c *served) open(config clientConfig, schemes func(string) (Purchasing, error)) (closer func() error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	scheme, err := schemes(config.Scheme)
	if err != nil {
		return nil, err
	}
	keys, err := market.NewKeys(config.Prefix)
	if err != nil {
		return nil, err
	}
	dial, err := dialer(ctx, config.Market, keys, config.Resend)
	if err != nil {
		return nil, err
	}
	lockDial := dial
	if config.Locks != nil {
		if lockDial, err = dialer(ctx, *config.Locks, keys, config.Resend); err != nil {
			return nil, err
		}
	}
	rdb, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	locks, err := lockDial(ctx)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	process := new(lock.Process)
	env := strategies.Env{
		Redis: rdb, Dial: dial, LockRedis: locks, LockDial: lockDial, Keys: keys, Process: process,
		Steps: c.observe, Now: func() time.Time { return time.Now().Add(config.Clock) },
		Servers: config.servers(),
	}
	spec, ok := scheme.(strategies.Spec)
	purchaser, opened, err := scheme.Open(env)
	if err != nil {
		return nil, errors.Join(err, rdb.Close(), locks.Close())
	}
	c.purchaser, c.accounts, c.replicas, c.locks = purchaser, config.Accounts, config.Replicas, locks
	if config.Confirm > 0 {
		c.purchaser = confirmed{purchaser, rdb, config.Confirm}
	}
	if ok {
		c.openLock = func() (lock.Locker, error) { return spec.OpenLock(env) }
	}
	return func() error {
		var err error
		if l, ok := c.locker.(io.Closer); ok {
			err = l.Close()
		}
		return errors.Join(err, opened.Close(), process.Close(), locks.Close(), rdb.Close())
	}, nil
}

func (config clientConfig) servers() lock.Servers {
	targets := make([]backend.Target, len(config.Masters))
	for i, m := range config.Masters {
		targets[i] = m.target()
	}
	return lock.Servers{Masters: servers.Dialers(targets), ZooKeeper: config.ZooKeeper, Etcd: config.Etcd}
}

// replicasTimeout is how long a client waits for replicas to have its lock.
const replicasTimeout = 2 * time.Second

// defaultRetries is how often go-redis sends a command again when nobody says otherwise.
const defaultRetries = 3

// dialer connects as every client of marketsim does, or as go-redis does by default when a command is to be sent again.
func dialer(ctx context.Context, e endpoint, keys market.Keys, resend bool) (
	func(context.Context) (*redis.Client, error), error,
) {
	connect := func(ctx context.Context) (*backend.Conn, error) { return backend.Dial(ctx, e.target()) }
	if e.Cluster {
		cluster, err := backend.OpenCluster(ctx, e.target())
		if err != nil {
			return nil, err
		}
		connect = cluster.Dialer(keys.Market())
	}
	return func(ctx context.Context) (*redis.Client, error) {
		conn, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		if !resend {
			return conn.Client, nil
		}
		options := *conn.Options()
		options.MaxRetries = defaultRetries
		return redis.NewClient(&options), conn.Close()
	}, nil
}

// confirmTimeout is how long a client waits for replicas to have its purchase.
const confirmTimeout = 500 * time.Millisecond

// confirmed is a Purchaser that says that a purchase was made when some replicas have it. If they do not have it in time
// it is not known what becomes of it: the master has made it, and another may take its place.
type confirmed struct {
	market.Purchaser
	rdb      *redis.Client // of one connection: WAIT is about what was written over that
	replicas int
}

func (c confirmed) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	before := c.rdb.PoolStats().Misses
	receipt, err := c.Purchaser.Purchase(ctx, o)
	if err != nil {
		return receipt, err
	}
	n, err := c.rdb.Wait(ctx, c.replicas, confirmTimeout).Result()
	switch {
	case err != nil:
		err = fmt.Errorf("how many replicas have the purchase is unknown: %v", err)
	case n < int64(c.replicas):
		err = fmt.Errorf("%d replicas have the purchase, want %d", n, c.replicas)
	case c.rdb.PoolStats().Misses != before: // a new connection, on which nothing was written
		err = errors.New("how many replicas have the purchase is unknown: its connection broke")
	}
	return receipt, err
}
