package bench

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

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// hotConfig is a row of so many buyers and items on s, to be changed by a test.
func hotConfig(t testing.TB, s *backend.Server, subject Subject, items, buyers int) Config {
	c := config(t, s, subject)
	c.Mix, c.Hot = result.Mix{Buyers: buyers}, items
	return c
}

// TestHotItemsCirculate: with every strategy buyers sell each other what they buy, every purchase is listed again, the
// audit follows each item, and nothing is left. One item does for 64 buyers.
func TestHotItemsCirculate(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for _, name := range []string{
			"watch", "watch-item", "coarse", "fine", "fine-wallet", "fine:set-px:write=fused", "lua", "lua-shared", "lua:idempotent=on",
		} {
			for _, c := range []struct {
				items, buyers, wallets int
				purchases              int64
			}{{1, 1, 0, 40}, {1, 64, 0, 10}, {7, 3, 0, 40}, {3, 4, 2, 40}} {
				if c.wallets > 0 && (strings.HasPrefix(name, "fine:") || name == "fine") {
					continue // it protects no account that two buyers spend from
				}
				row := hotConfig(t, s, spec(t, name), c.items, c.buyers)
				row.Purchases, row.Wallets = c.purchases, c.wallets
				got, err := Run(t.Context(), row)
				if err != nil || got.Status != result.Complete || !got.Audit.OK {
					t.Fatalf("%s: %s, %v, audit %+v", row.Name(), got.Status, err, got.Audit)
				}
				if got.Bought != row.Purchases || got.Listed != row.Purchases || got.Hot != c.items || got.Sellers != 0 || got.Unknown != 0 {
					t.Errorf("%s: %d bought, %d listed again, %d unknown, %+v; want %d, as many, 0", row.Name(), got.Bought,
						got.Listed, got.Unknown, got.Workload, row.Purchases)
				}
				gone(t, s, row.Keys)
			}
		}
	})
}

// TestHotItemSoldTwice: two buyers of an item hold it in their hands at once, and the audit says so.
func TestHotItemSoldTwice(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := hotConfig(t, s, spec(t, "unsafe"), 1, 2)
		c.Purchases = 2
		var both sync.WaitGroup
		both.Add(2)
		c.steps = func(Role) step.Observer {
			met := false
			return func(_ context.Context, at step.Name) {
				if at == step.BeforeWrite && !met { // each has read that the item is there
					met = true
					both.Done()
					both.Wait()
				}
			}
		}
		row, err := Run(t.Context(), c)
		if err != nil || row.Bought != 2 || !row.Audit.Done || row.Audit.OK || row.Audit.ItemProblems == 0 {
			t.Errorf("%v, %d bought, audit %+v; want 2, and the item wrong", err, row.Bought, row.Audit)
		}
		gone(t, s, c.Keys)
	})
}

// TestHotStock: the items are spread over the buyers' accounts and listed before anybody trades.
func TestHotStock(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for _, c := range []struct {
			items, buyers, wallets int
			want                   []int // listings by account
		}{
			{1, 3, 0, []int{1, 0, 0}}, {5, 3, 0, []int{2, 2, 1}}, {2500, 2, 0, []int{1250, 1250}}, {5, 4, 2, []int{3, 2}},
		} {
			config := hotConfig(t, s, spec(t, "fine"), c.items, c.buyers)
			config.Wallets = c.wallets
			ws := connected(t, config)
			if err := errors.Join(ws.stock(t.Context()), ws.Close()); err != nil {
				t.Fatal(err)
			}
			found, err := market.ReadSnapshot(t.Context(), testkit.Dial(t, s), config.Keys, len(c.want))
			if err != nil {
				t.Fatal(err)
			}
			listed := make([]int, len(c.want))
			for member, price := range found.Listings {
				_, seller, err := market.ParseMember(member)
				if err != nil || price < minPrice || price > maxPrice {
					t.Errorf("listing %s at %d, %v", member, price, err)
				}
				listed[seller-1]++
			}
			audit, err := ws.Audit(t.Context())
			if !slices.Equal(listed, c.want) || err != nil || !audit.OK || lastMinted(ws.ledgers(ws.markets[0])) == 0 {
				t.Errorf("%d items: listed by account %v, want %v; audit %+v, %v", c.items, listed, c.want, audit, err)
			}
			if row := ws.Row(result.Complete, time.Second); row.Listed != 0 {
				t.Errorf("%d listings are counted", row.Listed)
			}
			if _, err := market.Remove(t.Context(), testkit.Dial(t, s), config.Keys,
				market.Made{Accounts: len(c.want), Items: lastMinted(ws.ledgers(ws.markets[0]))}, config.Subject.LockKeys(config.Keys, market.Made{})); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestRelist: what was bought is listed again until it is, unless it is gone or the row has ended. Waits are counted as
// those of listings, and the buyer's time adds up.
func TestRelist(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []error
		tries   int
		stops   bool
	}{
		{"at once", []error{nil}, 1, false},
		{"contended", []error{market.ErrContended, fmt.Errorf("%w: expired", market.ErrLockLost), market.ErrStale, nil}, 4, false},
		{"not its own any more", []error{market.ErrNotOwned}, 1, false},
		{"the environment failed", []error{errLost}, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			m := fakeMeasurement(Config{Mix: result.Mix{Buyers: 1}, Workload: result.Workload{Hot: 1}}, nil,
				func(*measurement) market.Purchaser {
					return fake{onList: func(_ context.Context, l market.Listing) (market.Receipt, error) {
						time.Sleep(time.Second)
						if tries++; l.Item != 7 || l.Seller != 1 || l.Price < minPrice || l.Price > maxPrice {
							t.Errorf("%s: %+v is listed", c.name, l)
						}
						return market.Receipt{Polls: 2}, c.answers[tries-1]
					}}
				})
			w := m.buyers[0]
			m.relist(t.Context(), w, 7)
			if tries != c.tries || m.stop.asked.Load() != c.stops {
				t.Errorf("%s: %d tries, stopped %t; want %d, %t", c.name, tries, m.stop.asked.Load(), c.tries, c.stops)
			}
			if w.spent.listing != time.Duration(c.tries)*time.Second || w.spent.to.Sub(w.spent.from) != w.spent.listing {
				t.Errorf("%s: %s were spent, from %s to %s", c.name, w.spent.listing, w.spent.from, w.spent.to)
			}
			row := m.Row(result.Complete, time.Second)
			if *row.SellerPolls != int64(2*c.tries) || *row.BuyerPolls != 0 || row.Polls != *row.SellerPolls {
				t.Errorf("%s: %d polls of listings, %d of orders", c.name, *row.SellerPolls, *row.BuyerPolls)
			}
			m.stop.set(result.Complete, nil)
			if m.relist(t.Context(), w, 7); tries != c.tries {
				t.Errorf("%s: it is tried again after the end", c.name)
			}
		})
	}
}

// TestHotBuyersKeepOn: a buyer who cannot pay may earn. One who finds nothing looks again when something is listed, and
// does not wait beyond the end of the row.
func TestHotBuyersKeepOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Mix: result.Mix{Buyers: 1}, Duration: time.Second, Workload: result.Workload{Hot: 1}}
		poor := 2
		m := fakeMeasurement(c, nil, func(*measurement) market.Purchaser {
			return fake{onPurchase: func(context.Context, market.Order) (market.Receipt, error) {
				time.Sleep(time.Millisecond)
				if poor--; poor >= 0 {
					return market.Receipt{}, market.ErrInsufficientFunds
				}
				return market.Receipt{}, nil
			}}
		})
		browses := 0
		m.buyers[0].supply = someTimes{offers: 3, browses: &browses}
		m.work(t.Context())
		row := m.row()
		if row.Bought != 1 || row.Listed != 1 || row.Refused["insufficient_funds"] != 2 || len(row.Warnings) > 0 {
			t.Errorf("%d bought, %d listed, refused %v, warnings %q; want 1, 1, twice, none", row.Bought, row.Listed, row.Refused,
				row.Warnings)
		}
		if browses != 4 { // two refusals, a purchase, and then nothing until the end
			t.Errorf("the market was looked at %d times", browses)
		}
	})
}

// someTimes is a supply that offers an item so many times, and then nothing.
type someTimes struct {
	*endless
	offers  int
	browses *int
}

func (s someTimes) browse(_ context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error) {
	if *s.browses++; *s.browses <= s.offers {
		orders = append(orders, market.Order{Item: 1, Seller: 1, Buyer: buyer, Price: 1})
	}
	return orders, nil
}

// TestHotHistory: the history of items that circulate is one that has an order, and holds every listing.
func TestHotHistory(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := hotConfig(t, s, spec(t, "fine"), 2, 3)
		c.Purchases, c.History = 60, t.TempDir()
		row, err := Run(t.Context(), c)
		if err != nil || !row.Audit.OK {
			t.Fatalf("%v, audit %+v", err, row.Audit)
		}
		h, err := history.Read(c.History)
		if err != nil {
			t.Fatal(err)
		}
		listed := 0
		for _, o := range h.Ops {
			if o.Kind == history.List && o.Outcome == history.Applied {
				listed++
			}
		}
		if verdict := history.Check(t.Context(), h); listed != 2+60 || verdict.Answer != history.Linearizable {
			t.Errorf("%d listings, %+v; want 62, %s", listed, verdict, history.Linearizable)
		}
	})
}
