package bench

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// TestLargeMarket: a market of many items and accounts is stocked, traded on by all accounts of each worker in turn,
// audited and removed, in a few seconds.
func TestLargeMarket(t *testing.T) {
	s := testkit.Local(t)
	const items, accounts = 200_000, 20_001
	c := config(t, s, spec(t, "lua"))
	c.Mix, c.Stock, c.Accounts = result.Mix{Sellers: 2, Buyers: 2}, items, accounts
	row, err := driveRow(t.Context(), c, func(ctx context.Context, ws *Workers) (result.Row, error) {
		conn := testkit.Dial(t, s)
		if n := conn.ZCard(ctx, c.Keys.Market()).Val(); n != items {
			t.Errorf("%d items are listed, want %d", n, items)
		}
		spent, bought := map[market.UserID]bool{}, 0
		for _, w := range ws.buyers {
			for range 10 {
				orders, err := w.Browse(ctx)
				if err != nil {
					return result.Row{}, err
				}
				for _, o := range orders {
					switch err := w.Purchase(ctx, o); {
					case err == nil:
						spent[o.Buyer] = true
						bought++
					case !errors.Is(err, market.ErrNotListed): // a browse returns an item twice
						return result.Row{}, err
					}
				}
			}
		}
		if len(spent) != bought || bought < 1000 {
			t.Errorf("%d accounts bought %d items, want one each", len(spent), bought)
		}
		if err := errors.Join(ws.sellers[0].List(ctx), ws.Close()); err != nil {
			return result.Row{}, err
		}
		audit, err := ws.Audit(ctx)
		return result.Row{Audit: audit}, err
	})
	if a := row.Audit; err != nil || !a.OK || a.Items != items+market.BatchSize || a.Funds != accounts*DefaultFunds {
		t.Errorf("%v, audit %+v", err, a)
	}
	gone(t, s, c.Keys)
}

// TestStock: sellers list a stock for their accounts in turn, and go on with what is left of the last batch. An open loop
// keeps it up.
func TestStock(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "watch"))
		c.Mix, c.Stock, c.Accounts = result.Mix{Sellers: 2, Buyers: 1}, 4050, 7
		_, err := driveRow(t.Context(), c, func(ctx context.Context, ws *Workers) (result.Row, error) {
			found, err := market.ReadSnapshot(ctx, testkit.Dial(t, s), c.Keys, c.Accounts)
			if err != nil {
				return result.Row{}, err
			}
			listed := map[market.UserID]int{}
			for member := range found.Listings {
				_, seller, _ := market.ParseMember(member)
				listed[seller]++
			}
			// Accounts 1, 4 and 7 are the first seller's, 2 and 5 the second's, 3 and 6 the buyer's.
			if want := map[market.UserID]int{4: 1000, 7: 1000, 1: 25, 5: 1025, 2: 1000}; !maps.Equal(listed, want) {
				t.Errorf("listed by account: %v, want %v", listed, want)
			}
			return result.Row{}, ws.sellers[0].List(ctx)
		})
		if err != nil {
			t.Error(err)
		}
	})
	c := Config{Subject: noSubject{}, Mix: mix1x1, Rate: 1, Workload: result.Workload{Stock: 5000}}
	o := c.markets()[0]
	if !o.stock.enough() {
		t.Error("sellers do not know of the stock")
	}
	if o.stock.listings.Add(-1); o.stock.enough() {
		t.Error("sellers do not keep it up")
	}
}

// TestStockInterrupted: who does not wait until a stock is listed leaves nothing behind.
func TestStockInterrupted(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		c := config(t, s, spec(t, "fine"))
		c.Stock = 5000
		dialed := 0
		c.Dial = func(ctx context.Context) (*backend.Conn, error) {
			conn, err := s.Dial(ctx)
			if dialed++; dialed == 4 { // after that of the seeding, the seller's and the buyer's
				interrupt()
			}
			return conn, err
		}
		row, err := Run(ctx, c)
		if err != nil || row.Status != result.Interrupted || row.Audit.Done {
			t.Errorf("%v, %s, audit %+v; want it interrupted, and not audited", err, row.Status, row.Audit)
		}
		gone(t, s, c.Keys)
	})
}

// TestCirculation: ledgers keep each item in short rows of markets that are not large.
func TestCirculation(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		sums   bool
	}{
		"a minute":                {func(*Config) {}, false},
		"more":                    {func(c *Config) { c.Duration += time.Second }, true},
		"a million purchases":     {func(c *Config) { c.Purchases = 1e6 }, false},
		"more, whatever the time": {func(c *Config) { c.Purchases = 1e6 + 1 }, true},
		"few, whatever the time":  {func(c *Config) { c.Duration, c.Purchases = time.Hour, 1 }, false},
		"a stock":                 {func(c *Config) { c.Stock = 1 }, true},
		"more accounts":           {func(c *Config) { c.Accounts = 10 }, true},
		"hot":                     {func(c *Config) { c.Hot, c.Mix.Sellers = 1, 0 }, true},
	} {
		config := Config{Subject: noSubject{}, Mix: mix1x1, Duration: time.Minute}
		if c.change(&config); ((&rowMarket{Config: config}).newCirculation() != nil) != c.sums {
			t.Errorf("%s: sums %t, want %t", name, !c.sums, c.sums)
		}
	}
}

// TestSize: numbers of accounts and items that do not go with the rest are refused.
func TestSize(t *testing.T) {
	good := Config{
		Subject: noSubject{}, Mix: result.Mix{Sellers: 2, Buyers: 3}, Duration: time.Second, Funds: DefaultFunds,
		Workload: result.Workload{Accounts: 5, Stock: MaxStock},
	}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"a stock of -1 items":       func(c *Config) { c.Stock = -1 },
		"want 0 to 100000000":       func(c *Config) { c.Stock = MaxStock + 1 },
		"a copy of the market":      func(c *Config) { c.History = "folder" },
		"all that there is":         func(c *Config) { c.Hot, c.Mix.Sellers = 1, 0 },
		"4 accounts for 5 sellers":  func(c *Config) { c.Accounts = 4 },
		"1000001 accounts":          func(c *Config) { c.Accounts = 1_000_001 },
		"or several share one":      func(c *Config) { c.Wallets = 1 },
		"want no browsers":          func(c *Config) { c.Browsers = 1 },
		"nobody looks which are em": func(c *Config) { c.Funds = DefaultFunds - 1 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrConfig and %q", err, want)
		}
	}
}

// TestWithin: a large market has more time, in proportion.
func TestWithin(t *testing.T) {
	m := rowMarket{Config: Config{Subject: noSubject{}, Workload: result.Workload{Accounts: 1_000_000}}}
	ctx, cancel := m.within(t.Context(), time.Minute, 3_000_000)
	defer cancel()
	if until, _ := ctx.Deadline(); time.Until(until) < 2*time.Minute+50*time.Second || time.Until(until) > 3*time.Minute {
		t.Errorf("it ends in %s, want 3m", time.Until(until))
	}
}
