package load

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// TestValidate: what cannot be measured is refused before anything is dialled (which
// would panic here), by the word of its flag, and what can be measured is not.
func TestValidate(t *testing.T) {
	usual := plan{
		Point: result.Point{
			Mix: result.Mix{Sellers: 2, Buyers: 3},
			Load: result.Load{
				Wallets: 3,
				Funds:   1,
				Stock:   MaxStock,
				HoldMS:  10_000,
				RTTMS:   1000,
				Rate:    MaxRate,
			},
		},
		Options: Options{Subject: inRedis, Duration: time.Second, Warmup: time.Second, SLO: time.Second},
	}
	hot := plan{
		Point: result.Point{
			Mix:  result.Mix{Buyers: 3},
			Load: result.Load{Hot: MaxHot, Funds: LeastHotFunds},
		},
		Options: Options{Subject: elsewhere, Duration: time.Second},
	}
	three := plan{
		Point: result.Point{
			Mix:  result.Mix{Sellers: 3, Buyers: 3},
			Load: result.Load{Markets: 3, Wallets: 3},
		},
		Options: Options{Subject: inRedis, Duration: time.Second, Sites: make([]Site, 3)},
	}

	for name, good := range map[string]plan{"usual": usual, "hot": hot, "three": three} {
		if err := good.Validate(good.Point); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	for _, c := range []struct {
		base       plan
		field, why string
		spoil      func(*plan)
	}{
		{usual, "duration", "0s: want 1ms or more", func(c *plan) { c.Duration = 0 }},
		{usual, "duration", "20ns: want 1ms or more", func(c *plan) { c.Duration = 20 }},
		{usual, "warmup", "must not be negative", func(c *plan) { c.Warmup = -1 }},
		{usual, "mix", "at least one seller", func(c *plan) { c.Mix.Sellers = 0 }},
		{usual, "mix", "such as 5x1", func(c *plan) { c.Mix.Buyers = 0 }},
		{usual, "mix", "such as 5x1", func(c *plan) { c.Mix.Sellers = -1 }},
		{usual, "mix", "at most 1000 workers", func(c *plan) { c.Mix = result.Mix{Sellers: 500, Buyers: 501} }},
		{usual, "mix", "at most 1000 workers", func(c *plan) { c.Mix.Buyers = math.MaxInt }},
		{usual, "wallets", "-1 for 3", func(c *plan) { c.Wallets = -1 }},
		{usual, "wallets", "4 for 3 buyers", func(c *plan) { c.Wallets = 4 }},
		{usual, "funds", "-1", func(c *plan) { c.Funds = -1 }},
		{usual, "funds", "want 0 to", func(c *plan) { c.Funds = MaxFunds + 1 }},
		{usual, "stock", "want 0 to 1000000", func(c *plan) { c.Stock++ }},
		{usual, "stock", "-1 items", func(c *plan) { c.Stock = -1 }},
		{usual, "empty", "goes without", func(c *plan) { c.Empty = true }},
		{usual, "hold", "-100µs: want 0, or 100µs to 10s", func(c *plan) { c.HoldMS = -0.1 }},
		{usual, "hold", "10.001s", func(c *plan) { c.HoldMS++ }},
		{usual, "hold", "1ns", func(c *plan) { c.HoldMS = 1e-6 }},
		{usual, "hold", "want 0, or", func(c *plan) { c.HoldMS = math.NaN() }},
		{usual, "rtt", "100µs to 1s", func(c *plan) { c.RTTMS++ }},
		{usual, "rtt", "kept elsewhere", func(c *plan) { c.Options.Subject = elsewhere }},
		{usual, "rate", "want more than 0", func(c *plan) { c.Rate++ }},
		{usual, "rate", "-1 orders/s", func(c *plan) { c.Rate = -1 }},
		{usual, "rate", "NaN", func(c *plan) { c.Rate = math.NaN() }},
		{usual, "slo", "orders at a rate", func(c *plan) { c.Rate = 0 }},
		{usual, "slo", "positive", func(c *plan) { c.SLO = -1 }},
		{usual, "markets", "2, with places for 1", func(c *plan) { c.Markets = 2 }},
		{usual, "markets", "-1, with places for 1", func(c *plan) { c.Markets = -1 }},
		{usual, "markets", "or 0 for one market", func(c *plan) { c.Markets = 1 }},
		{three, "markets", "0, with places for 3", func(c *plan) { c.Markets = 0 }},
		{three, "mix", "2 sellers for 3 markets", func(c *plan) { c.Mix.Sellers = 2 }},
		{three, "mix", "2 buyers for 3 markets", func(c *plan) { c.Mix.Buyers, c.Wallets = 2, 0 }},
		{three, "hot", "2 items for 3 markets", func(c *plan) { c.Mix.Sellers, c.Hot = 0, 2 }},
		{three, "stock", "2 items for 3 markets", func(c *plan) { c.Stock = 2 }},
		{three, "wallets", "2 accounts for 3 markets", func(c *plan) { c.Wallets = 2 }},
		{three, "history", "want one market", func(c *plan) { c.History = "somewhere" }},
		{hot, "hot", "1000001 items", func(c *plan) { c.Hot++ }},
		{hot, "hot", "-1 items", func(c *plan) { c.Hot, c.Mix.Sellers = -1, 1 }},
		{hot, "stock", "all that there is", func(c *plan) { c.Stock = 1 }},
		{hot, "mix", "want 0 sellers, such as 0x5", func(c *plan) { c.Mix.Sellers = 1 }},
		{hot, "rate", "list again are not free", func(c *plan) { c.Rate = 1 }},
		{hot, "funds", "99: want 100", func(c *plan) { c.Funds = 99 }},
	} {
		c.spoil(&c.base)
		row, err := c.base.run(t.Context())
		wrong, is := errors.AsType[*PointError](err)
		if !is || wrong.Field != c.field || !strings.Contains(wrong.Why, c.why) {
			t.Errorf("%s, %q: %v", c.field, c.why, err)
		}

		if row.Seconds != 0 || row.PerBuyer != nil {
			t.Errorf("%s: a row was made: %+v", c.field, row)
		}
	}
}

// TestAccounts: sellers come first, and buyers who share wallets take turns.
func TestAccounts(t *testing.T) {
	for _, c := range []struct {
		wallets, accounts int
		first, last       market.UserID
	}{{0, 7, 3, 7}, {5, 7, 3, 7}, {2, 4, 3, 3}, {1, 3, 3, 3}} {
		p := result.Point{
			Strategy: "some#2",
			Mix:      result.Mix{Sellers: 2, Buyers: 5},
			Load:     result.Load{Wallets: c.wallets, Funds: 9},
		}
		if o := opening(p); o.Accounts != c.accounts || o.Funds != 9 || o.Strategy != "some" ||
			account(p, seller, 1) != 2 {
			t.Errorf("%d wallets: %+v, second seller %d", c.wallets, o, account(p, seller, 1))
		}
		if first, last := account(p, buyer, 0), account(p, buyer, 4); first != c.first || last != c.last {
			t.Errorf("%d wallets: buyers from %d to %d, want %d to %d",
				c.wallets, first, last, c.first, c.last)
		}
	}

	if funds(result.Point{}) != DefaultFunds {
		t.Error("by default an account is not rich")
	}
}
