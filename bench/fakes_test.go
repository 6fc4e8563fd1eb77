package bench

import (
	"context"
	"io"
	"iter"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
)

// fake is a Purchaser made of functions; nil: the operation is applied at once.
type fake struct {
	onList     func(context.Context, market.Listing) (market.Receipt, error)
	onPurchase func(context.Context, market.Order) (market.Receipt, error)
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

// untouched blocks a seller until the row ends, so that a test sees its buyers alone.
func untouched(m *measurement) func(context.Context, market.Listing) (market.Receipt, error) {
	return func(context.Context, market.Listing) (market.Receipt, error) {
		<-m.stop.done
		return market.Receipt{}, market.ErrNotOwned
	}
}

// endless is a supply in memory. There is always something new to buy, at price 1, from user 1; ids start again after a
// while, so that no ledger grows.
type endless struct{ item market.ItemID }

func (s *endless) mint(context.Context, market.UserID) (market.ItemID, error) { return 1, nil }

func (s *endless) browse(_ context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error) {
	for range browseSize {
		s.item = s.item%market.BatchSize + 1
		orders = append(orders, market.Order{Item: s.item, Seller: 1, Buyer: buyer, Price: 1})
	}
	return orders, nil
}

func (s *endless) funds(context.Context, market.UserID) (int64, error) { return 0, nil }

// fakeMeasurement measures workers without a server.
func fakeMeasurement(c Config, seller, buyer func(*measurement) market.Purchaser) *measurement {
	c.Subject = noSubject{}
	m := newMeasurement(newWorkers(c))
	for _, w := range m.sellers {
		w.purchaser, w.supply = seller(m), &endless{}
	}
	for _, w := range m.buyers {
		w.purchaser, w.supply = buyer(m), &endless{}
	}
	return m
}

// noSubject is the subject of fake workers.
type noSubject struct{}

func (noSubject) String() string { return "none" }
func (noSubject) Open(strategies.Env) (market.Purchaser, io.Closer, error) {
	panic("fake workers have their Purchasers")
}
func (noSubject) LockKeys(market.Keys, market.Made) iter.Seq[string] {
	return func(func(string) bool) {}
}

// tampered is a strategy whose Purchasers a test watches or spoils.
type tampered struct {
	strategies.Spec
	wrap func(market.Purchaser) market.Purchaser
}

func (s tampered) Open(env strategies.Env) (market.Purchaser, io.Closer, error) {
	p, closer, err := s.Spec.Open(env)
	return s.wrap(p), closer, err
}

// attempt makes a purchase as the strategy does.
type attempt func() (market.Receipt, error)

// onPurchase lets f stand before a strategy's purchases.
func onPurchase(t *testing.T, name string, f func(next attempt) (market.Receipt, error)) Subject {
	return tampered{spec(t, name), func(p market.Purchaser) market.Purchaser {
		return fake{onList: p.List, onPurchase: func(ctx context.Context, o market.Order) (market.Receipt, error) {
			return f(func() (market.Receipt, error) { return p.Purchase(ctx, o) })
		}}
	}}
}

func spec(t testing.TB, name string) strategies.Spec {
	t.Helper()
	s, err := strategies.Builtin().Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// config is a row of 1x1 on s, to be changed by a test.
func config(t testing.TB, s *backend.Server, subject Subject) Config {
	return Config{
		Subject: subject, Mix: mix1x1, Purchases: 20, Seed: DefaultSeed, Funds: DefaultFunds,
		Keys: testkit.Keys(t), Dial: s.Dial,
	}
}
