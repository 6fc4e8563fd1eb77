package chaos

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
)

const (
	// grace is how long operations may go on after a round, before those that wait for a lock are cut short.
	grace = 2 * time.Second
	// freeTimeout bounds the removal of locks that nobody holds.
	freeTimeout = time.Minute
	// think is how long a worker waits between two operations, on average.
	think = 10 * time.Millisecond
	// enough is how many listings the sellers of an account, or of all, put up before they wait for buyers.
	enough = 16
	// fresh is how many of the listings that it saw a buyer tries before it browses again.
	fresh = 4
	// stubborn is how many failures in a row make a worker connect anew.
	stubborn = 3
)

// Options say what strikes a row, and which functions are called about it.
type Options struct {
	Schedule Schedule
	Expiry   lock.Expiry // of the subject's lock
	Accounts bool        // the subject protects an account that several workers spend from
	// OwnLockServers says that the lock is not on the market's server.
	OwnLockServers bool
	// LockServers are these servers, if they may be struck; nil: they may not, or there are none.
	LockServers LockServers
	// Child says that every second seller and buyer works in a child process, which is this program: its main function
	// calls ServeChild. With one buyer there is none. Private are then the addresses of c.Servers.
	Child   bool
	Private servers.Addresses
	// Frees enumerates the keys that say who holds the subject's lock, if that stays taken when its holder could not give
	// it back; nil: it does not. The driver does what an operator would: it deletes them, between two rounds, when nobody
	// holds a lock.
	Frees func(market.Keys, market.Made) iter.Seq[string]
	// Patience is how long the pause of a client or a process waits for a worker to come to its step; 0: 3 s.
	Patience time.Duration
	OnFault  func(Fault)      // gets each fault as it strikes; may be nil
	OnRound  func(result.Row) // gets the row as it is after each round, with its audit; may be nil
}

// Run runs one row through the faults of a schedule. Errors do not end it: its workers count them, connect anew and go
// on. Between two rounds everything is healed, every operation has ended, and the market is audited; the first
// violation ends the row. Workers take a little time between two operations, and sellers keep the market small, so that
// buyers want the same items.
//
// The row and the errors are those of bench.Run. That a fault cannot strike or cannot be healed is a failure of the
// environment. c.Dial is not used, and c must have no warm-up, no browsers, no number of purchases, and the book's workload.
func (s *Setup) Run(ctx context.Context, c bench.Config, o Options) (row result.Row, err error) {
	n := newNemesis(s, o)
	s.market = c.Keys.Market()
	c.Dial, c.Sites, c.DialWorker, c.Steps, c.Restarts = s.Direct, nil, s.Dial, n.steps, true
	if o.Child && c.Mix.Buyers > 1 { // or no buyer would be in it, at whose steps it is paused
		if n.child, err = s.startChild(c, o.Private); err != nil {
			return result.Row{}, err
		}
		c.OpenWorker = n.child.opener(c.Subject)
		defer func() { err = errors.Join(err, n.child.close()) }()
	}
	d := driver{
		config: c, rounds: len(o.Schedule), strike: n.strikeRound, struck: n.counts, settle: s.Settle,
		frees: o.Frees, onRound: o.OnRound, began: n.begins, finish: n.conclude,
	}
	return d.run(ctx)
}

// driver runs a row in rounds.
type driver struct {
	config bench.Config
	rounds int
	// strike lets the faults of a round, from 0, strike, and heals them. It returns early if ctx ends.
	strike  func(ctx context.Context, round int) error
	struck  func() map[string]int64
	settle  func(context.Context) error // returns when nothing that workers have sent can still arrive
	frees   func(market.Keys, market.Made) iter.Seq[string]
	onRound func(result.Row)
	began   func(time.Time)   // gets the time from which the row's series counts; may be nil
	finish  func(*result.Row) // adds to the row what it has shown; may be nil
	stopped time.Time         // the end of the last round's faults
}

func (d *driver) run(ctx context.Context) (result.Row, error) {
	if c := d.config; c.Purchases != 0 || c.Browsers != 0 || c.Warmup != 0 || c.Workload != (result.Workload{}) {
		return result.Row{}, fmt.Errorf("%w: chaos goes without warm-up, browsers, a number of purchases and a workload "+
			"other than the book's", bench.ErrConfig)
	}
	return bench.Drive(ctx, d.config, d.load)
}

// load runs round after round.
func (d *driver) load(ctx context.Context, workers *bench.Workers) (row result.Row, err error) {
	defer workers.Close() // a connection that was cut returns its error again
	traders := newTraders(d.config.Seed, workers)
	begun := workers.Follow()
	if d.began != nil {
		d.began(begun)
	}
	row = workers.Row(result.Complete, 0)
	chaos := result.Chaos{Seed: d.config.Seed}
	if d.config.Pool > 0 {
		chaos.Pool, chaos.Funds = d.config.Pool, d.config.Funds
	}
	audit := result.Audit{Problems: []string{}}
	var loaded, blocked time.Duration
	chaos.BlockedSeconds = new(float64)
	for i := range d.rounds {
		status, took, err := d.round(ctx, traders, i)
		loaded += took
		quiet := context.WithoutCancel(ctx)
		freed, quietErr := d.quiesce(quiet)
		if chaos.FreedLocks += freed; freed > 0 {
			blocked += min(took, idleFor(traders, d.stopped))
			*chaos.BlockedSeconds = blocked.Seconds()
		}
		if err = errors.Join(err, quietErr); err == nil {
			if audit, err = workers.Audit(quiet); err == nil {
				chaos.Rounds++
			}
		}
		chaos.Times = append(chaos.Times, timeOf(result.Quiet, begun, d.stopped))
		chaos.Faults, chaos.Reopened = d.struck(), 0
		for _, t := range traders {
			chaos.Reopened += t.reopened
		}
		row = workers.Row(status, loaded)
		row.Series = workers.Series(time.Since(begun))
		told := chaos
		row.Audit, row.Chaos = audit, &told
		if d.finish != nil {
			d.finish(&row)
		}
		if err != nil {
			return row, err
		}
		if d.onRound != nil {
			d.onRound(row)
		}
		if !audit.OK || ctx.Err() != nil {
			break
		}
	}
	return row, nil
}

// idleFor is how long before the end of a round the last operation was applied.
func idleFor(traders []*trader, end time.Time) time.Duration {
	idle := time.Duration(math.MaxInt64)
	for _, t := range traders {
		idle = min(idle, end.Sub(t.applied))
	}
	return max(0, idle)
}

// round lets the workers trade while faults strike, and returns when all have come to rest.
func (d *driver) round(ctx context.Context, traders []*trader, number int) (
	status result.Status, took time.Duration, err error,
) {
	trading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	operations, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var all sync.WaitGroup
	start := time.Now()
	for _, t := range traders {
		all.Go(func() { t.trade(trading, operations) })
	}
	err = d.strike(ctx, number)
	status = result.Complete
	if ctx.Err() != nil {
		status = result.Interrupted
	}
	stop()
	d.stopped = time.Now()
	took = d.stopped.Sub(start)
	defer time.AfterFunc(grace, cut).Stop()
	all.Wait()
	return status, took, err
}

// quiesce waits until no operation is under way any more, and frees the locks that nobody holds.
func (d *driver) quiesce(ctx context.Context) (freed int64, err error) {
	if err := d.settle(ctx); err != nil || d.frees == nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, freeTimeout)
	defer cancel()
	conn, err := d.config.Dial(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	keys := d.config.Keys
	made, err := market.ReadMade(ctx, conn.Client, keys)
	if err != nil {
		return 0, err
	}
	freed, err = market.RemoveKeys(ctx, conn.Client, d.frees(keys, made))
	if err != nil {
		return freed, fmt.Errorf("free the locks that nobody holds: %w", err)
	}
	return freed, nil
}

// trader is a worker that goes on whatever strikes it.
type trader struct {
	*bench.Worker
	once     func(t *trader, trading, operations context.Context) error // makes some operations
	random   *rand.Rand
	failures int // in a row
	reopened int64
	applied  time.Time // when its last operation had been applied
	pooled   bool      // it shares its account with sellers and buyers
}

func newTraders(seed uint64, workers *bench.Workers) (all []*trader) {
	for _, w := range workers.All() {
		t := &trader{Worker: w, once: (*trader).buy, random: rand.New(rand.NewPCG(seed, uint64(1+len(all)))),
			pooled: workers.Pool > 0}
		if w.Role() == bench.Seller {
			t.once = (*trader).sell
		}
		all = append(all, t)
	}
	return all
}

// trade makes operations until trading ends, whatever goes wrong. Those under way then go on until their own end.
func (t *trader) trade(trading, operations context.Context) {
	for t.rest(trading) {
		if t.failures >= stubborn {
			if t.Connect(operations) != nil {
				continue
			}
			t.reopened++
			t.failures = 0
		}
		if err := t.once(t, trading, operations); bench.Fatal(err) {
			t.failures++
		} else {
			t.failures = 0
		}
	}
}

// rest takes a little time, and reports whether to go on.
func (t *trader) rest(trading context.Context) bool {
	sleep(trading, time.Duration(t.random.Int64N(int64(2*think))))
	return trading.Err() == nil
}

// sell lists one item, unless there are enough listings. In a pool those of the seller's own account count: the others
// may be dear to accounts that have to sell before they can buy.
func (t *trader) sell(_, operations context.Context) error {
	seen, err := t.Browse(operations)
	if err != nil {
		return err
	}
	if t.pooled {
		seen = slices.DeleteFunc(slices.Clone(seen), func(o market.Order) bool { return o.Seller != o.Buyer })
	}
	if len(seen) >= enough {
		return nil
	}
	return t.noting(t.List(operations))
}

// noting notes when an operation was applied, and returns its error.
func (t *trader) noting(err error) error {
	if err == nil {
		t.applied = time.Now()
	}
	return err
}

// buy tries to buy a few listings.
func (t *trader) buy(trading, operations context.Context) error {
	seen, err := t.Browse(operations)
	if err != nil {
		return err
	}
	if t.pooled { // nobody buys from the own account
		seen = slices.DeleteFunc(slices.Clone(seen), func(o market.Order) bool { return o.Seller == o.Buyer })
	}
	for _, o := range seen[:min(fresh, len(seen))] {
		if err := t.noting(t.Purchase(operations, o)); bench.Fatal(err) || !t.rest(trading) {
			return err
		}
	}
	return nil
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
