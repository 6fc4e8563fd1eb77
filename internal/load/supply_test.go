package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// hotConfig is a row with these numbers of buyers and items on s, to be changed by a test.
func hotConfig(t testing.TB, s *backend.Server, subject strategies.Spec, items, buyers int) plan {
	c := config(t, s, subject)
	c.Mix, c.Hot = result.Mix{Buyers: buyers}, items
	return c
}

// TestListingsUp: the market in which a row begins, who listed it, and that none of it
// is counted. Sellers go on with what is left of their last batch, and an open loop
// keeps up what it begins with.
func TestListingsUp(t *testing.T) {
	t.Parallel()
	s := testkit.Best(t)
	for name, c := range map[string]struct {
		mix  result.Mix
		load result.Load
		want []int // listings by account
	}{
		"usual":         {result.Mix{Sellers: 2, Buyers: 3}, result.Load{}, []int{96, 96, 0, 0, 0}},
		"open":          {result.Mix{Sellers: 2, Buyers: 3}, result.Load{Rate: 1}, []int{500, 500, 0, 0, 0}},
		"stock":         {result.Mix{Sellers: 2, Buyers: 1}, result.Load{Stock: 4050}, []int{2025, 2025, 0}},
		"empty":         {mix1x1, result.Load{Empty: true}, []int{0, 0}},
		"hot":           {result.Mix{Buyers: 3}, result.Load{Hot: 5}, []int{2, 2, 1}},
		"one hot":       {result.Mix{Buyers: 3}, result.Load{Hot: 1}, []int{1, 0, 0}},
		"many hot":      {result.Mix{Buyers: 2}, result.Load{Hot: 2500}, []int{1250, 1250}},
		"hot, 2 owners": {result.Mix{Buyers: 4}, result.Load{Hot: 5, Wallets: 2}, []int{3, 2}},
	} {
		p := config(t, s, spec(t, "fine"))
		p.timed(time.Second)
		p.Mix, p.Load = c.mix, c.load
		m := newMeasurement(p.Point, p.Options)

		row, err := m.drive(t.Context(), func() error {
			found, err := market.ReadSnapshot(t.Context(), testkit.Dial(t, s), p.Keys, len(c.want))
			if err != nil {
				return err
			}

			listed := make([]int, len(c.want))
			for member, price := range found.Listings {
				_, seller, err := market.ParseMember(member)
				if err != nil || price < minPrice || price > maxPrice {
					t.Errorf("%s: listing %s at %d, %v", name, member, price, err)
				}
				listed[seller-1]++
			}

			if !slices.Equal(listed, c.want) || m.markets[0].stock != len(found.Listings) {
				t.Errorf("%s: listed by account %v, want %v; the stock is %d",
					name, listed, c.want, m.markets[0].stock)
			}

			// The window never begins, so that these are not counted either.
			for _, w := range m.sellers {
				err = errors.Join(err, w.listNext(t.Context()))
			}
			return err
		})
		if err != nil || !row.Audit.OK || row.Listed != 0 || row.ListMS.Count != 0 {
			t.Errorf("%s: %v, audit %+v, %d listings counted", name, err, row.Audit, row.Listed)
		}
		gone(t, s, p.Keys)
	}
}

// TestHotItemsCirculate: with every strategy buyers sell each other what they buy,
// every purchase is listed again, the audit follows each item, and nothing is left.
// One item does for 64 buyers.
func TestHotItemsCirculate(t *testing.T) {
	t.Parallel()
	s := testkit.Best(t)
	for _, name := range []string{
		"watch", "coarse", "fine-wallet", "fine:set-px:write=fused", "lua-shared", "lua:idempotent=on",
	} {
		for _, c := range []struct {
			items, buyers, wallets int
			purchases              int
		}{{1, 1, 0, 40}, {1, 64, 0, 10}, {7, 3, 0, 40}, {3, 4, 2, 40}} {
			if c.wallets > 0 && strings.HasPrefix(name, "fine:") {
				continue // it protects no account that two buyers spend from
			}

			row := hotConfig(t, s, spec(t, name), c.items, c.buyers)
			row.Wallets = c.wallets
			row.buys(c.purchases)
			got, err := row.run(t.Context())
			if err != nil || got.Status != stored.Complete || !got.Audit.OK {
				t.Fatalf("%s: %s, %v, audit %+v", row.Name(), got.Status, err, got.Audit)
			}

			// A buyer lists what it bought last after the row.
			listedWrong := got.Listed > got.Bought || got.Listed < got.Bought-int64(c.buyers)
			if got.Bought != int64(c.purchases) || listedWrong || got.Unknown != 0 {
				t.Errorf("%s: %d bought, %d listed again, %d unknown; want %d, as many, 0",
					row.Name(), got.Bought, got.Listed, got.Unknown, c.purchases)
			}
			gone(t, s, row.Keys)
		}
	}
}

// TestHotItemSoldTwice: two buyers of an item hold it in their hands at once,
// and the audit says so.
func TestHotItemSoldTwice(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		c := hotConfig(t, s, spec(t, "unsafe"), 1, 2)
		c.buys(2)

		var both sync.WaitGroup
		both.Add(2)
		c.steps = func(role) step.Observer {
			met := false
			return func(_ context.Context, at step.Name) {
				if at == step.BeforeWrite && !met { // each has read that the item is there
					met = true
					both.Done()
					both.Wait()
				}
			}
		}

		row, err := c.run(t.Context())
		if err != nil || row.Bought != 2 ||
			!row.Audit.Done || row.Audit.OK || row.Audit.ItemProblems == 0 {
			t.Errorf("%v, %d bought, audit %+v; want 2, and the item wrong", err, row.Bought, row.Audit)
		}
		gone(t, s, c.Keys)
	})
}

// TestRelist: what was bought is listed again until it is, unless it is gone or the row
// has ended. Waits are counted as those of listings, and the buyer's time adds up.
func TestRelist(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		tries   int
		stops   bool
	}{
		"at once": {[]error{nil}, 1, false},
		"contended": {
			[]error{
				market.ErrContended, fmt.Errorf("%w: expired", market.ErrLockLost), market.ErrStale, nil,
			},
			4, false,
		},
		"not its own any more":    {[]error{market.ErrNotOwned}, 1, false},
		"the environment failed":  {[]error{errLost}, 1, true},
		"its outcome is not told": {[]error{market.ErrNotSent}, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			m := fakeMeasurement(
				plan{Point: result.Point{Mix: result.Mix{Buyers: 1}, Load: result.Load{Hot: 1}}}, nil,
				func(*measurement) market.Purchaser {
					return fake{onList: func(_ context.Context, l market.Listing) (market.Receipt, error) {
						// On synctest's clock a try adds exactly this to busy.
						time.Sleep(time.Second)
						tries++
						if l.Item != 7 || l.Seller != 1 || l.Price < minPrice || l.Price > maxPrice {
							t.Errorf("%s: %+v is listed", name, l)
						}
						return market.Receipt{Polls: 2}, c.answers[tries-1]
					}}
				})

			w := m.buyers[0]
			m.window.begin(0, time.Hour)
			m.relist(t.Context(), w, 7)

			stopped := m.window.stopped.Load()
			if tries != c.tries || stopped != c.stops || w.tally.busy != time.Duration(c.tries)*time.Second {
				t.Errorf("%s: %d tries in %s, stopped %t; want %d, %t",
					name, tries, w.tally.busy, stopped, c.tries, c.stops)
			}
			if row := m.row(); row.ListPolls != int64(2*c.tries) || row.Polls != 0 {
				t.Errorf("%s: %d polls of listings, %d of orders", name, row.ListPolls, row.Polls)
			}

			m.window.stop(stored.Complete)
			m.relist(t.Context(), w, 7)
			if tries != c.tries {
				t.Errorf("%s: it is tried again after the end", name)
			}
		})
	}
}

// TestHotBuyersKeepOn: a buyer who cannot pay may earn. One who finds nothing looks again
// when something is listed, and does not wait beyond the end of the row.
func TestHotBuyersKeepOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poor := 2
		p := plan{
			Point:   result.Point{Mix: result.Mix{Buyers: 1}, Load: result.Load{Hot: 1}},
			Options: Options{Duration: time.Second},
		}
		m := fakeMeasurement(p, nil, func(*measurement) market.Purchaser {
			return fake{onPurchase: func(context.Context, market.Order) (market.Receipt, error) {
				time.Sleep(time.Millisecond)
				poor--
				if poor >= 0 {
					return market.Receipt{}, market.ErrInsufficientFunds
				}
				return market.Receipt{}, nil
			}}
		})

		browses := 0
		m.buyers[0].supply = someTimes{offers: 3, browses: &browses}
		m.work(t.Context())

		row := m.row()
		if row.Bought != 1 || row.Listed != 1 ||
			row.Refused["insufficient_funds"] != 2 || row.BusyBuyers != 1 {
			t.Errorf("%d bought, %d listed, refused %v, %v busy; want 1, 1, twice, 1",
				row.Bought, row.Listed, row.Refused, row.BusyBuyers)
		}

		if browses != 4 { // two refusals, a purchase, and then nothing until the end
			t.Errorf("the market was looked at %d times", browses)
		}
	})
}

// someTimes is a supply that offers an item n times, and then nothing.
type someTimes struct {
	*endless
	offers  int
	browses *int
}

func (s someTimes) browse(
	_ context.Context, orders []market.Order, buyer market.UserID,
) ([]market.Order, error) {
	*s.browses++
	if *s.browses <= s.offers {
		orders = append(orders, market.Order{Item: 1, Seller: 1, Buyer: buyer, Price: 1})
	}
	return orders, nil
}

// TestHotHistory: the history of items that circulate is one that has an order,
// and holds every listing.
func TestHotHistory(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		c := hotConfig(t, s, spec(t, "fine"), 2, 3)
		c.History = t.TempDir()
		c.buys(60)
		row, err := c.run(t.Context())
		if err != nil || !row.Audit.OK {
			t.Fatalf("%v, audit %+v", err, row.Audit)
		}

		h := testkit.Must(history.Read(t.Context(), c.History))(t)
		listed := 0
		for _, o := range h.Ops {
			if o.Kind == history.List && o.Outcome == history.Applied {
				listed++
			}
		}

		verdict := history.Check(t.Context(), h)
		if listed < 60 || listed > 2+60 || verdict.Answer != history.Linearizable {
			t.Errorf("%d listings, %+v; want 62, or less by who had bought when the row ended, %s",
				listed, verdict, history.Linearizable)
		}
	})
}
