package fault

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// The parent and a child talk in lines of JSON: one clientConfig, then commands
// down, and events up.

type clientConfig struct {
	Number int    // of the client, from 0
	Scheme string // a spec
	// Own is the strategy that is a script of the user's; the zero value: none is.
	Own    ownScript
	Prefix string

	endpoints
	wrongClock
	habits
}

// ownScript is a script of the user's, with the name of its strategy.
type ownScript struct{ Name, Text string }

// endpoints are the servers that a client connects to.
type endpoints struct {
	Market    endpoint
	Locks     *endpoint // where the locks live, if that is not the market's server
	Masters   []endpoint
	ZooKeeper []string
	Etcd      []string
}

// wrongClock is what is wrong with a client's wall clock.
type wrongClock struct {
	Clock time.Duration // how far it is ahead
	Right int64         // readings of it before it is set wrong
	Tick  time.Duration // between two readings of it that differ; 0: they always may
}

// habits are what a client does otherwise than every client of marketsim.
type habits struct {
	Resend   bool          // it sends commands again by itself, as go-redis does by default
	Once     bool          // it tries for a lock once, and does not wait
	Follow   bool          // it follows a slot of a cluster that moves
	Patience time.Duration // how long it waits for a reply; 0: as long as all others
}

// endpoint is a private server, which has no TLS. The password goes from parent
// to child by a pipe.
type endpoint struct {
	Network, Addr, Password string
	Cluster                 bool // a node of a cluster: clients go to the master of the market's slot
}

func endpointOf(t redisconn.Target) endpoint {
	return endpoint{Network: t.Network, Addr: t.Addr, Password: t.Password}
}

func (e endpoint) target() redisconn.Target {
	return redisconn.Target{Network: e.Network, Addr: e.Addr, Password: e.Password}
}

// The commands that a child gets.
const (
	doList   = "list"
	doBuy    = "buy"
	doBrowse = "browse" // under a shared lock
	doGo     = "go"     // on, from where it is held
	doFree   = "free"   // from where it is held, to be held nowhere else
)

type command struct {
	Do      string
	Listing market.Listing
	Order   market.Order
	Hold    []step.Breakpoint // where it is held, once each
}

// event is what a child reports: Ready, At, Done or Error, and the other fields with it.
type event struct {
	Ready bool      // its Purchaser is open
	At    step.Name // it is held there
	Done  *OpResult
	Clock bool   // it has read its wall clock while that was wrong
	Error string // it cannot go on
	Lacks bool   // Error is that the lock does not work on these servers

	Stood time.Duration // the longest time so far for which its process stood still
}

// OpResult is what a client's operation returned.
type OpResult struct {
	Reason    string // why it was refused, as market.Reason names it
	Error     string // any error's text
	LeaseLost bool   // as in market.Receipt
}

// Applied reports whether the operation was applied for sure.
func (o OpResult) Applied() bool { return o.Error == "" }

// Unknown reports whether the client does not know if the operation was applied.
func (o OpResult) Unknown() bool { return o.Error != "" && o.Reason == "" }

// entered reports whether the market itself answered: a client that something
// else answers has got in nowhere.
func (o OpResult) entered() bool {
	answers := []string{"not_listed", "price_changed", "insufficient_funds", "not_owned", "stale"}
	return o.Applied() || slices.Contains(answers, o.Reason)
}

// String describes an outcome to a reader.
func (o OpResult) String() string {
	switch {
	case o.Applied():
		return "applied"
	case o.Unknown():
		return fmt.Sprintf("unknown (%s)", o.Error)
	}
	return "refused: " + o.Reason
}

// ServeChild acts as a client and ends the process, if it was started to be one. Its
// scheme is from the catalogue.
func ServeChild(catalogue func() strategies.Catalogue) {
	if os.Getenv(childEnv) == "" {
		return
	}
	redisconn.QuietLogs()
	if err := serve(os.Stdin, os.Stdout, catalogue()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is a client, seen from its own process.
type child struct {
	*connect.Opened
	process lock.ProcessState
	right   int64                     // readings of its wall clock before that is set wrong
	gate    atomic.Pointer[step.Gate] // of the operation under way; at first, one that holds nothing
	clock   atomic.Int64              // readings of its wall clock

	still *stillness

	mu  sync.Mutex
	out *json.Encoder
}

func newChild(out io.Writer) *child {
	// It looks at the clock less often than the program that started it: there are many clients.
	c := &child{out: json.NewEncoder(out), still: watchStillness(5 * lookEvery)}
	// A lock may call steps before the first operation begins.
	c.gate.Store(step.HoldEach(nil))
	return c
}

// serve is one client until its input ends.
func serve(in io.Reader, out io.Writer, catalogue strategies.Catalogue) error {
	lines := json.NewDecoder(bufio.NewReader(in))
	c := newChild(out)
	defer c.still.end()

	var config clientConfig
	if err := lines.Decode(&config); err != nil {
		return fmt.Errorf("read the client's configuration: %w", err)
	}
	if err := guard(func() { c.open(config, catalogue) }); err != nil {
		c.report(event{Error: err.Error(), Lacks: errors.Is(err, lock.ErrServers)})
		return err
	}
	c.report(event{Ready: true})

	// An operation runs beside this loop, held at the steps of its command, so that doGo and
	// doFree can let it go on. They reach the gate of the newest one only: the parent is to begin
	// one when the last has ended.
	var working sync.WaitGroup
	for {
		var cmd command
		if err := lines.Decode(&cmd); err != nil {
			// The operation ends before what it uses is closed.
			c.gate.Load().Open()
			working.Wait()
			return errors.Join(c.Close(), c.process.Close())
		}

		switch cmd.Do {
		case doGo:
			c.gate.Load().Next()
		case doFree:
			c.gate.Load().Open()
		default:
			c.gate.Store(step.HoldEach(func(at step.Name) {
				c.report(event{At: at})
			}, cmd.Hold...))
			working.Go(func() { c.report(c.work(cmd)) })
		}
	}
}

// observe holds the operation at its points, whatever its context says.
func (c *child) observe(ctx context.Context, at step.Name) {
	c.gate.Load().Observe(context.WithoutCancel(ctx), at)
}

func (c *child) report(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.Clock = c.clock.Load() > c.right
	e.Stood = c.still.soFar()
	_ = c.out.Encode(e) // a parent that is gone ends the input, too
}

// work makes the operation of a command, and reports what its client was told.
func (c *child) work(cmd command) event {
	ctx := context.Background()
	var receipt market.Receipt
	var err error

	switch cmd.Do {
	case doList:
		receipt, err = c.Purchaser.List(ctx, cmd.Listing)
	case doBuy:
		receipt, err = c.Purchaser.Purchase(ctx, cmd.Order)
	case doBrowse:
		// Only schemes with a lock are told to browse, and each is a Browser.
		receipt, err = c.Purchaser.(market.Browser).Browse(ctx, cmd.Listing)
	default:
		return event{Error: fmt.Sprintf("unknown command %q", cmd.Do)}
	}

	o := &OpResult{Reason: market.Reason(err), LeaseLost: receipt.LeaseLost}
	if err != nil {
		o.Error = err.Error()
	}
	return event{Done: o}
}

// open connects and opens the Purchaser. Where something fails it ends as a
// scenario does: see guard.
func (c *child) open(config clientConfig, catalogue strategies.Catalogue) {
	c.right = config.Right
	// Less than the parent waits for Ready, so that it hears of the error.
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout*2/3)
	defer cancel()

	// The child has the catalogue that its parent has, but for what belongs to this run.
	if config.Once {
		catalogue.Locks = withoutWaiting(catalogue.Locks)
	}
	if config.Own.Text != "" {
		own := strategies.OwnScript(config.Own.Name, config.Own.Text)
		catalogue.Strategies = append(slices.Clone(catalogue.Strategies), own)
	}
	spec := must(catalogue.Parse(config.Scheme))
	keys := must(market.NewKeys(config.Prefix))
	to := func(e endpoint) redisconn.Dialer {
		return must(dialer(ctx, e, keys, config))
	}

	servers := connect.MarketServers{
		Market:    to(config.Market),
		ZooKeeper: config.ZooKeeper,
		Etcd:      config.Etcd,
	}
	for _, m := range config.Masters {
		servers.Masters = append(servers.Masters, to(m))
	}
	if config.Locks != nil {
		servers.Locks = to(*config.Locks)
	}

	clock := func() time.Time {
		return c.now(config.wrongClock)
	}
	c.Opened = must(connect.Open(ctx, spec, servers, connect.Counters{}, strategies.Env{
		ClientEnv: market.ClientEnv{Number: config.Number, Steps: c.observe, Now: clock},
		Keys:      keys,
		Process:   &c.process,
	}))
}

// now reads a clock that is right for the first few readings only.
func (c *child) now(wrong wrongClock) time.Time {
	now := time.Now().Truncate(wrong.Tick)
	if c.clock.Add(1) <= wrong.Right {
		return now
	}
	return now.Add(wrong.Clock)
}

// withoutWaiting are locks whose Acquire tries once, and does not wait.
func withoutWaiting(kinds []lock.Kind) []lock.Kind {
	kinds = slices.Clone(kinds)
	for i, kind := range kinds {
		kinds[i].New = func(env lock.Env) (lock.Locker, error) {
			l, err := kind.New(env)
			closer, ok := l.(io.Closer)
			if !ok {
				closer = io.NopCloser(nil)
			}
			return trying{l, closer}, err
		}
	}
	return kinds
}

type trying struct {
	lock.Locker
	io.Closer
}

// Acquire implements lock.Locker: if the lock is held, the time-out is over at once.
func (t trying) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	lease, err := t.Try(ctx, name)
	if errors.Is(err, lock.ErrHeld) {
		err = fmt.Errorf("%w: %w", lock.ErrTimeout, err)
	}
	return lease, err
}

// dialer is what the clients of a child connect with. With config.Resend they send commands
// again, as go-redis does by default; with config.Follow they follow a slot that moves. With
// config.Patience they wait for so long for replies, and not for as long as all others; they
// then dial again if a greeting takes longer.
func dialer(ctx context.Context, e endpoint, keys market.Keys, config clientConfig) (redisconn.Dialer, error) {
	d := redisconn.To(e.target())
	if e.Cluster {
		cluster, err := redisconn.OpenCluster(ctx, e.target())
		if err != nil {
			return d, err
		}
		d = cluster.Dialer(keys.Market())
	}
	if config.Resend {
		d = d.WithResends()
	}
	if config.Follow {
		d = d.WithFollowing()
	}
	if config.Patience == 0 {
		return d, nil
	}

	// On a busy machine a server may greet later than that, which is not what is played.
	const redials = 20
	return d.WithReplyTimeout(config.Patience).WithWrap(func(
		ctx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {
		conn, err := dial(ctx)
		for again := 0; again < redials && err != nil; again++ {
			conn, err = dial(ctx)
		}
		return conn, err
	}), nil
}
