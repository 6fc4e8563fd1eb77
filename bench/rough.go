package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/step"
)

// A Storm strikes a row with faults, round after round. Package bench/chaos makes one.
type Storm interface {
	// Rounds is how many there are.
	Rounds() int
	// Strike lets the faults of a round, counted from 0, strike, and heals them. When it returns, early if ctx ends,
	// nothing is broken. An error means that something could not be broken, or not be healed.
	Strike(ctx context.Context, round int) error
	// Settle returns when nothing that workers have sent can still arrive. They are at rest.
	Settle(ctx context.Context) error
	// Struck counts the faults so far, by kind.
	Struck() map[string]int64
	// Steps sees the steps of one worker, and may hold it.
	Steps(seller bool) step.Observer
}

// Rough makes a row a long and rough one: instead of being measured, it goes on through the faults of a Storm. Errors
// do not end it; its workers count them, connect anew and go on. Between two rounds everything is healed, every
// operation ended, and the market audited; the first violation ends the row. Workers take a little time between two
// operations, and sellers keep the market small, so that buyers want the same items.
type Rough struct {
	Storm Storm
	// Direct connects to the market's server past the faults.
	Direct func(context.Context) (*backend.Conn, error)
	// FreeLocks says that the subject's lock stays taken when its holder could not give it back. As an operator
	// would, the driver then frees it, between two rounds, when nobody holds one.
	FreeLocks bool
	// Tell is told each round that is over. It may be nil.
	Tell func(Round)
}

// Round is how far a rough row has come.
type Round struct {
	Number  int           // from 1
	Loaded  time.Duration // of all rounds so far
	Faults  int64         // that have struck so far
	Bought  int64
	Unknown int64 // operations whose outcome the client was not told
	Audit   Audit
}

// Chaos is what a rough row went through.
type Chaos struct {
	Seed       uint64           `json:"seed"`
	Rounds     int              `json:"rounds"`      // that ended in an audit
	Faults     map[string]int64 `json:"faults"`      // that struck, by kind
	Reopened   int64            `json:"reopened"`    // times that a worker connected anew
	FreedLocks int64            `json:"freed_locks"` // keys of locks that nobody held, removed between two rounds
}

// Struck is how many faults there were.
func (c Chaos) Struck() (n int64) {
	for _, of := range c.Faults {
		n += of
	}
	return n
}

const (
	// roughGrace is how long operations may go on after a round, before those that wait for a lock are told to stop.
	roughGrace = 2 * time.Second
	// think is how long a worker waits between two operations, on average.
	think = 10 * time.Millisecond
	// thin is how many listings sellers put up before they wait for buyers.
	thin = 16
	// fresh is how many of the listings that it saw a buyer tries before it looks again.
	fresh = 4
	// stubborn is after how many failures in a row a worker connects anew.
	stubborn = 3
)

// runRough is Run of a rough row, once the market is open.
func (c Config) runRough(ctx context.Context, crew *crew) (row Row, err error) {
	chaos := Chaos{Seed: c.Seed}
	audit := noAudit()
	var loaded time.Duration
	for i := range c.Rough.Storm.Rounds() {
		start := time.Now()
		err = crew.round(ctx, c.Rough.Storm, i)
		loaded += crew.brake.at.Sub(start)
		quiet := context.WithoutCancel(ctx)
		freed, quietErr := c.calm(quiet)
		chaos.FreedLocks += freed
		if err = errors.Join(err, quietErr); err == nil {
			audit, err = c.audit(quiet, crew.ledgers())
		}
		if err != nil {
			break
		}
		chaos.Rounds++
		c.tell(crew, chaos, loaded, audit)
		if !audit.OK || ctx.Err() != nil {
			break
		}
	}
	_ = crew.close() // a connection that was cut says so once more
	crew.from, crew.brake.at = time.Time{}, time.Time{}.Add(loaded)
	row = crew.row(c)
	row.Audit = audit
	chaos.Faults = c.Rough.Storm.Struck()
	for _, w := range crew.all() {
		chaos.Reopened += w.reopened
	}
	row.Chaos = &chaos
	return row, errors.Join(err, c.finish(context.WithoutCancel(ctx), crew.history))
}

// tell tells how far the row has come. The workers are at rest.
func (c Config) tell(crew *crew, chaos Chaos, loaded time.Duration, audit Audit) {
	if c.Rough.Tell == nil {
		return
	}
	chaos.Faults = c.Rough.Storm.Struck()
	r := Round{Number: chaos.Rounds, Loaded: loaded, Faults: chaos.Struck(), Audit: audit}
	for _, w := range crew.all() {
		r.Bought += w.recorder.bought
		r.Unknown += w.recorder.unknown
	}
	c.Rough.Tell(r)
}

// round lets the workers trade while the storm strikes, and returns when all have come to rest.
func (c *crew) round(ctx context.Context, storm Storm, number int) error {
	operations, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c.brake = newBrake()
	var everybody sync.WaitGroup
	start := func(w *worker, trade func(context.Context) error) {
		w.brake = c.brake
		everybody.Go(func() { w.persevere(operations, trade) })
	}
	for _, w := range c.sellers {
		start(w, w.offer)
	}
	for _, w := range c.buyers {
		start(w, w.bargain)
	}
	err := storm.Strike(ctx, number)
	switch {
	case err != nil:
		c.brake.pull(Incomplete, err)
	case ctx.Err() != nil:
		c.brake.pull(Interrupted, nil)
	default:
		c.brake.pull(Complete, nil)
	}
	defer time.AfterFunc(roughGrace, cancel).Stop()
	everybody.Wait()
	return err
}

// persevere trades until the brake is pulled, whatever goes wrong.
func (w *worker) persevere(ctx context.Context, trade func(context.Context) error) {
	for failures := 0; w.rest(); {
		err := error(nil)
		if w.purchaser == nil || failures >= stubborn {
			err = w.reopen(ctx)
			failures = 0
		}
		if err == nil {
			err = trade(ctx)
		}
		if failures++; !fatal(err) {
			failures = 0
		}
	}
}

// rest takes a little time, and reports whether to go on.
func (w *worker) rest() bool {
	select {
	case <-time.After(time.Duration(w.random.Int64N(int64(2 * think)))):
		return !w.brake.pulled.Load()
	case <-w.brake.done:
		return false
	}
}

// reopen gives up the worker's connection and Purchaser, and makes others. What fails is tried again.
func (w *worker) reopen(ctx context.Context) error {
	if w.purchaser != nil {
		_ = w.closer.Close() // what it could not tell the server, its lock's time-out or the driver mends
		_ = w.conn.Close()
		w.purchaser, w.closer, w.conn = nil, nil, nil
	}
	conn, purchaser, closer, err := w.open(ctx)
	if err != nil {
		return err
	}
	w.conn, w.purchaser, w.closer = conn, purchaser, closer
	w.goods = stall{conn.Client, w.keys}
	w.reopened++
	return nil
}

// offer lists one item, unless there are enough listings.
func (w *worker) offer(ctx context.Context) error {
	seen, err := w.goods.browse(ctx, w.seen[:0], w.account)
	if w.seen = seen; err != nil || len(seen) >= thin {
		return err
	}
	if w.next >= w.last {
		if err := w.mint(ctx); err != nil {
			return err
		}
	}
	w.next++
	return w.list(ctx, w.next-1)
}

// bargain tries to buy a few listings.
func (w *worker) bargain(ctx context.Context) error {
	seen, err := w.goods.browse(ctx, w.seen[:0], w.account)
	if w.seen = seen; err != nil {
		return err
	}
	w.random.Shuffle(len(seen), func(i, j int) { seen[i], seen[j] = seen[j], seen[i] })
	for _, o := range seen[:min(fresh, len(seen))] {
		if err := w.order(ctx, o); fatal(err) || !w.rest() {
			return err
		}
	}
	return nil
}

// calm waits until nothing is under way any more, and frees the locks that nobody holds.
func (c Config) calm(ctx context.Context) (freed int64, err error) {
	if err := c.Rough.Storm.Settle(ctx); err != nil || !c.Rough.FreeLocks {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	conn, err := c.direct(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	made, err := market.ReadMade(ctx, conn.Client, c.Keys)
	if err != nil {
		return 0, err
	}
	freed, err = market.RemoveLocks(ctx, conn.Client, func(yield func(string) bool) {
		for key := range c.Subject.LockKeys(c.Keys, made) {
			if fence := strings.HasPrefix(key, c.Keys.Fence("")); !fence && !yield(key) {
				return
			}
		}
	})
	if err != nil {
		return freed, fmt.Errorf("free the locks that nobody holds: %w", err)
	}
	return freed, nil
}
