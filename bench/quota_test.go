package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// TestPurchases: a row makes as many purchases as it is asked to, not one more, and does not look at the clock.
func TestPurchases(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, mix := range []Mix{{1, 1}, {1, 5}, {5, 5}} {
			for _, n := range []int64{1, 4, 137} {
				c := config(t, s, spec(t, "fine"))
				c.Mix, c.Purchases, c.Duration = mix, n, time.Nanosecond
				row, err := Run(t.Context(), c)
				if err != nil || row.Status != Complete || !row.Audit.OK {
					t.Fatalf("%s: %s, %v, audit %+v", mix, row.Status, err, row.Audit)
				}
				if row.Bought != n || sum(row.PerBuyer) != n || len(row.PerBuyer) != mix.Buyers {
					t.Errorf("%s: %d purchases, by buyer %v; want %d", mix, row.Bought, row.PerBuyer, n)
				}
			}
		}
	})
}

func sum(all []int64) (total int64) {
	for _, n := range all {
		total += n
	}
	return total
}

// TestTicketsComeBack: a buyer that is broke leaves its purchase to the other.
func TestTicketsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Subject: noSubject{}, Mix: Mix{1, 2}, Purchases: 10}
		var poor sync.Once
		crew := fakeCrew(c,
			func(b *brake) market.Purchaser { return fake{onList: untouched(b)} },
			func(*brake) market.Purchaser {
				broke := false
				poor.Do(func() { broke = true })
				return fake{onPurchase: func(context.Context, market.Order) (market.Receipt, error) {
					time.Sleep(time.Millisecond)
					if broke {
						return market.Receipt{}, market.ErrInsufficientFunds
					}
					time.Sleep(browseSize * time.Millisecond) // the poor one gives up before the tickets are gone
					return market.Receipt{}, nil
				}}
			})
		crew.work(t.Context(), 0, 0)
		row := crew.row(c)
		if row.Bought != 10 || !slices.Equal(row.PerBuyer, []int64{0, 10}) {
			t.Errorf("bought %d, by buyer %v; want all 10 by the second", row.Bought, row.PerBuyer)
		}
		if want := []string{"1 of 2 buyers ran out of coins"}; !slices.Equal(row.Warnings, want) {
			t.Errorf("warnings %q, want %q", row.Warnings, want)
		}
	})
}

// TestBroke: the row ends when nobody can buy any more, and says so.
func TestBroke(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, mix := range []Mix{{1, 1}, {2, 3}} {
			c := config(t, s, spec(t, "fine"))
			c.Mix, c.Purchases, c.Duration, c.Funds = mix, 0, time.Hour, 200
			row, err := Run(t.Context(), c)
			if err != nil || row.Status != Complete || !row.Audit.OK {
				t.Fatalf("%s: %s, %v, audit %+v", mix, row.Status, err, row.Audit)
			}
			want := fmt.Sprintf("every buyer ran out of coins: the row ended after %.1f s", row.Seconds)
			if !slices.Equal(row.Warnings, []string{want}) || row.Refused["insufficient_funds"] == 0 {
				t.Errorf("%s: warnings %q, want %q; refused %v", mix, row.Warnings, want, row.Refused)
			}
		}
	})
}

// TestWallets: three buyers who spend 300 coins from one account spend 300, not 900.
func TestWallets(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine-wallet"))
		c.Mix, c.Wallets, c.Purchases, c.Duration, c.Funds, c.Keep = Mix{2, 3}, 1, 0, time.Hour, 300, true
		row, err := Run(t.Context(), c)
		if err != nil || !row.Audit.OK || len(row.PerBuyer) != 3 {
			t.Fatalf("%v, by buyer %v, audit %+v", err, row.PerBuyer, row.Audit)
		}
		market, err := market.ReadSnapshot(t.Context(), backendtest.Dial(t, s), c.Keys, 3)
		if err != nil {
			t.Fatal(err)
		}
		if market.Funds[3] != 0 || market.Funds[1]+market.Funds[2] != 900 || int64(len(market.Inventory[3])) != row.Bought {
			t.Errorf("funds %v, %d items with the buyers' account, bought %d", market.Funds, len(market.Inventory[3]), row.Bought)
		}
		for _, key := range under(t, s, c.Keys.Prefix()+"users:") {
			if strings.HasSuffix(key, ":4") {
				t.Errorf("%s: a fourth account", key)
			}
		}
	})
}
