package bench

import (
	"context"
	"io"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
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
func untouched(b *brake) func(context.Context, market.Listing) (market.Receipt, error) {
	return func(context.Context, market.Listing) (market.Receipt, error) {
		<-b.done
		return market.Receipt{}, market.ErrNotOwned
	}
}

// shelf is goods in memory. There is always something new to buy, at price 1, from user 1; ids start again after a
// while, so that no ledger grows.
type shelf struct{ item market.ItemID }

func (s *shelf) mint(context.Context, market.UserID) (market.ItemID, error) { return 1, nil }

func (s *shelf) browse(_ context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error) {
	for range browseSize {
		s.item = s.item%market.BatchSize + 1
		orders = append(orders, market.Order{Item: s.item, Seller: 1, Buyer: buyer, Price: 1})
	}
	return orders, nil
}

func (s *shelf) funds(context.Context, market.UserID) (int64, error) { return 0, nil }

// fakeCrew are workers without a server.
func fakeCrew(c Config, seller, buyer func(*brake) market.Purchaser) *crew {
	crew := &crew{brake: newBrake()}
	tickets := newTickets(c.Purchases)
	add := func(account market.UserID, p market.Purchaser, r *recorder) *worker {
		return &worker{
			account: account, purchaser: p, goods: &shelf{}, ledger: market.NewLedger(c.opening().Accounts), recorder: r,
			random: rand.New(rand.NewPCG(1, uint64(account))), brake: crew.brake,
		}
	}
	for i := range c.Mix.Sellers {
		crew.sellers = append(crew.sellers, add(c.seller(i), seller(crew.brake), newSellerRecorder()))
	}
	for i := range c.Mix.Buyers {
		w := add(c.buyer(i), buyer(crew.brake), newBuyerRecorder())
		w.tickets = tickets
		crew.buyers = append(crew.buyers, w)
	}
	return crew
}

// noSubject is the subject of a fake crew.
type noSubject struct{}

func (noSubject) String() string { return "none" }
func (noSubject) Open(strategies.Env) (market.Purchaser, io.Closer, error) {
	panic("a fake crew has its Purchasers")
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

// onPurchase lets f stand before a strategy's purchases.
func onPurchase(t *testing.T, name string,
	f func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error),
) Subject {
	return tampered{spec(t, name), func(p market.Purchaser) market.Purchaser {
		return fake{onList: p.List, onPurchase: func(ctx context.Context, o market.Order) (market.Receipt, error) {
			return f(ctx, o, p)
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
		Keys: backendtest.Keys(t), Dial: s.Dial,
	}
}
