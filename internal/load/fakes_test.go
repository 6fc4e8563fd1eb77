package load

import (
	"context"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/suite/subjects"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// plan is a row to be measured.
type plan struct {
	result.Point
	Options
	purchases int // after which the row ends; 0: it lasts for its time
}

// on1x1 is a row of one seller and one buyer.
func on1x1(o Options) plan { return plan{Point: result.Point{Mix: mix1x1}, Options: o} }

func (c plan) run(ctx context.Context) (result.Row, error) {
	if c.purchases == 0 {
		return Measure(ctx, c.Point, c.Options)
	}
	limited, subject := subjects.Limited(ctx, c.Options.Subject, c.purchases)
	c.Options.Subject = subject
	row, err := Measure(limited, c.Point, c.Options)
	if row.Status == stored.Interrupted && ctx.Err() == nil {
		row.Status = stored.Complete
	}
	return row, err
}

// config is a row of 1x1 on s, to be changed by a test.
func config(t testing.TB, s *backend.Server, subject strategies.Spec) plan {
	c := on1x1(Options{
		Duration: time.Minute, Seed: DefaultSeed, Keys: testkit.Keys(t),
		Servers: connect.MarketServers{Market: s.Dialer("")},
	})
	c.of(subject)
	c.buys(20)
	return c
}

// of makes the row one of a subject.
func (c *plan) of(subject strategies.Spec) {
	c.Options.Subject, c.Strategy = subject, subject.String()
}

// timed makes the row last for a time.
func (c *plan) timed(d time.Duration) { c.purchases, c.Duration = 0, d }

// buys makes the row last for n purchases.
func (c *plan) buys(purchases int) { c.purchases = purchases }

// purchasing and listing are how a fake answers.
type (
	purchasing func(context.Context, market.Order) (market.Receipt, error)
	listing    func(context.Context, market.Listing) (market.Receipt, error)
)

// fake is a Purchaser made of functions; nil: the operation is applied at once.
type fake struct {
	onList     listing
	onPurchase purchasing
}

func (f fake) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	if f.onList == nil {
		return market.Receipt{}, nil
	}
	return f.onList(ctx, l)
}

func (f fake) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	if f.onPurchase == nil {
		return market.Receipt{}, nil
	}
	return f.onPurchase(ctx, o)
}

func nothing(*measurement) market.Purchaser { return fake{} }

// away blocks a seller until the row ends, so that a test sees its buyers alone.
func away(m *measurement) market.Purchaser {
	return fake{onList: func(context.Context, market.Listing) (market.Receipt, error) {
		<-m.window.done
		return market.Receipt{}, market.ErrNotOwned
	}}
}

// endless is a supply in memory. There is always something new to buy, at price 1, from
// user 1; ids start again after a while, so that no ledger grows.
type endless struct{ item market.ItemID }

func (s *endless) mint(context.Context, market.UserID) (market.ItemID, error) { return 1, nil }

func (s *endless) browse(
	_ context.Context, orders []market.Order, buyer market.UserID,
) ([]market.Order, error) {
	for range glanceSize {
		s.item = s.item%market.BatchSize + 1
		orders = append(orders, market.Order{Item: s.item, Seller: 1, Buyer: buyer, Price: 1})
	}
	return orders, nil
}

func (s *endless) funds(context.Context, market.UserID) (int64, error) { return 0, nil }

// fakeMeasurement measures workers without a server.
func fakeMeasurement(c plan, seller, buyer func(*measurement) market.Purchaser) *measurement {
	c.of(inRedis)
	m := newMeasurement(c.Point, c.Options)
	for _, w := range m.sellers {
		w.purchaser, w.supply = seller(m), &endless{}
	}
	for _, w := range m.buyers {
		w.purchaser, w.supply = buyer(m), &endless{}
	}
	if m.open != nil {
		m.open.alarms = redisconn.NewTimerAlarm
	}
	return m
}

// worked is what comes of a row without a server in which buyers buy as purchase
// does, and sellers do nothing.
func worked(ctx context.Context, c plan, purchase purchasing) (*measurement, result.Row) {
	m := fakeMeasurement(c, away, func(*measurement) market.Purchaser {
		return fake{onPurchase: purchase}
	})
	if m.open != nil { // there the sellers keep up the stock
		m = fakeMeasurement(c, nothing, func(*measurement) market.Purchaser {
			return fake{onPurchase: purchase}
		})
	}
	m.work(ctx)
	return m, m.row()
}

// lasting is a purchase of a given length, on synctest's clock: it takes
// exactly as long as it sleeps.
func lasting(d time.Duration) purchasing {
	return func(context.Context, market.Order) (market.Receipt, error) {
		time.Sleep(d)
		return market.Receipt{}, nil
	}
}

// warned is the value of a row's warning, and whether it has it.
func warned(r result.Row, code result.Code) (float64, bool) {
	for _, w := range r.Warnings {
		if w.Code == code {
			return w.Value, true
		}
	}
	return 0, false
}

// inRedis is the subject of fake workers, which have their own Purchasers. The lock of
// elsewhere is not kept in Redis.
var inRedis, elsewhere = locking(lock.Kind{}), locking(lock.Kind{Needs: lock.NeedsZooKeeper})

func locking(kind lock.Kind) strategies.Spec {
	kind.Name, kind.Params = "none", []param.Param{lock.TimeoutParam}
	s := strategies.Strategy{Name: "none", Lock: "none"}
	return parsed("none", strategies.Catalogue{
		Strategies: []strategies.Strategy{s}, Locks: []lock.Kind{kind},
	})
}

func parsed(text string, c strategies.Catalogue) strategies.Spec {
	spec, err := c.Parse(text)
	if err != nil {
		panic(err)
	}
	return spec
}

// attempt makes a purchase as the strategy does.
type attempt func() (market.Receipt, error)

// onPurchase lets f stand before a strategy's purchases.
func onPurchase(
	t *testing.T, name string, f func(next attempt) (market.Receipt, error),
) strategies.Spec {
	return subjects.Tampered(spec(t, name), func(p market.Purchaser) market.Purchaser {
		return fake{
			onList: p.List,
			onPurchase: func(ctx context.Context, o market.Order) (market.Receipt, error) {
				return f(func() (market.Receipt, error) { return p.Purchase(ctx, o) })
			},
		}
	})
}

func spec(t testing.TB, name string) strategies.Spec {
	t.Helper()
	return testkit.Must(strategies.Builtin().Parse(name))(t)
}

func sum(all []int64) (total int64) {
	for _, n := range all {
		total += n
	}
	return total
}
