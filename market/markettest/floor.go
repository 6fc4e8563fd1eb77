package markettest

import (
	"context"
	"crypto/rand"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/step"
)

// opTimeout bounds an operation, longer than any strategy tries by itself.
const opTimeout = 30 * time.Second

// floor is where one test trades: a market of its own, the subject's workers in it, and a connection of the suite's.
type floor struct {
	testing.TB
	ctx     context.Context // lives until the test's cleanups are done
	server  *backend.Server
	subject Subject
	keys    market.Keys
	conn    *backend.Conn
	opening market.Opening
	ledgers []*market.Ledger // the first is the suite's
}

func newFloor(t testing.TB, s *backend.Server, subject Subject, o market.Opening) *floor {
	t.Helper()
	keys, err := market.NewKeys("markettest:{" + rand.Text() + "}:")
	if err != nil {
		t.Fatal(err)
	}
	f := &floor{TB: t, ctx: context.WithoutCancel(t.Context()), server: s, subject: subject, keys: keys, opening: o}
	f.conn = f.dial()
	f.ledgers = []*market.Ledger{market.NewLedger(o.Accounts)}
	return f
}

func (f *floor) dial() *backend.Conn {
	f.Helper()
	conn, err := f.server.Dial(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close() }) // a test may have closed it
	return conn
}

func (f *floor) seed() {
	f.Helper()
	if err := market.Seed(f.ctx, f.conn, f.keys, f.opening); err != nil {
		f.Fatal(err)
	}
}

func (f *floor) mint(owner market.UserID) market.ItemID {
	f.Helper()
	first, err := market.Mint(f.ctx, f.conn, f.keys, owner)
	f.ledgers[0].Minted(first, owner, err)
	if err != nil {
		f.Fatal(err)
	}
	return first
}

// close audits the market, whose workers are done, and removes it.
func (f *floor) close() {
	f.Helper()
	verdict, err := market.Audit(f.ctx, f.conn, f.keys, f.opening, f.ledgers...)
	if err != nil {
		f.Errorf("the market cannot be audited: %v", err)
	}
	for _, problem := range verdict.Problems {
		f.Errorf("audit: %s", problem)
	}
	f.onlyTheMarket()
	f.remove()
}

// remove deletes the market and whatever else is under its prefix, which should be nothing.
func (f *floor) remove() {
	f.Helper()
	made, err := market.ReadMade(f.ctx, f.conn, f.keys)
	if err == nil {
		_, err = market.Remove(f.ctx, f.conn, f.keys, made, f.lockKeys(made))
	}
	if err != nil {
		f.Errorf("the market cannot be removed: %v", err)
	}
	if rest := f.present(); len(rest) > 0 {
		f.Errorf("after the market was removed there is still %q", rest)
		f.conn.Unlink(f.ctx, rest...)
	}
}

func (f *floor) lockKeys(made market.Made) iter.Seq[string] {
	if f.subject.LockKeys == nil {
		return slices.Values[[]string](nil)
	}
	return f.subject.LockKeys(f.keys, made)
}

// present lists the keys under the prefix.
func (f *floor) present() (keys []string) {
	f.Helper()
	it := f.conn.Scan(f.ctx, 0, f.keys.Prefix()+"*", 1000).Iterator()
	for it.Next(f.ctx) {
		keys = append(keys, it.Val())
	}
	if err := it.Err(); err != nil {
		f.Fatal(err)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// onlyTheMarket checks that there is no key under the prefix but the market's own and those that last.
func (f *floor) onlyTheMarket() {
	f.Helper()
	own := []string{f.keys.Run(), f.keys.Market()}
	for id := market.UserID(1); id <= market.UserID(f.opening.Accounts); id++ {
		own = append(own, f.keys.User(id), f.keys.Inventory(id))
	}
	for _, key := range f.present() {
		if !slices.Contains(own, key) && !f.lasts(key) {
			f.Errorf("%s was left behind", key)
		}
	}
}

func (f *floor) lasts(key string) bool { return f.subject.Lasting != nil && f.subject.Lasting(key) }

func (f *floor) snapshot() market.Snapshot {
	f.Helper()
	s, err := market.ReadSnapshot(f.ctx, f.conn, f.keys, f.opening.Accounts)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// matches checks that the market is in a state.
func (f *floor) matches(want market.Snapshot) {
	f.Helper()
	if got := f.snapshot(); !reflect.DeepEqual(got, want) {
		f.Errorf("the market is not in the expected state:\n%s", difference(got, want))
	}
}

// worker opens a Purchaser with a connection and a ledger of its own.
func (f *floor) worker(steps step.Observer) *worker {
	f.Helper()
	w := &worker{floor: f, conn: f.dial(), ledger: market.NewLedger(f.opening.Accounts)}
	f.ledgers = append(f.ledgers, w.ledger)
	w.purchaser = f.subject.Open(f, Worker{
		Conn: w.conn, Keys: f.keys, Steps: steps,
		Dial: func(ctx context.Context) (*redis.Client, error) {
			conn, err := f.server.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return conn.Client, nil
		},
	})
	return w
}
