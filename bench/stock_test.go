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

// TestStock: sellers list a stock, and go on with what is left of the last batch; the market is audited and removed. An open
// loop keeps it up.
func TestStock(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "watch"))
		c.Mix, c.Stock = result.Mix{Sellers: 2, Buyers: 1}, 4050
		row, err := driveRow(t.Context(), c, func(ctx context.Context, ws *Workers) (result.Row, error) {
			found, err := market.ReadSnapshot(ctx, testkit.Dial(t, s), c.Keys, 3)
			if err != nil {
				return result.Row{}, err
			}
			listed := map[market.UserID]int{}
			for member := range found.Listings {
				_, seller, _ := market.ParseMember(member)
				listed[seller]++
			}
			if want := map[market.UserID]int{1: 2025, 2: 2025}; !maps.Equal(listed, want) {
				t.Errorf("listed by account: %v, want %v", listed, want)
			}
			if err := errors.Join(ws.sellers[0].List(ctx), ws.Close()); err != nil {
				return result.Row{}, err
			}
			audit, err := ws.Audit(ctx)
			return result.Row{Audit: audit}, err
		})
		if err != nil || !row.Audit.OK || row.Audit.Items != 6*market.BatchSize {
			t.Errorf("%v, audit %+v", err, row.Audit)
		}
		gone(t, s, c.Keys)
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

// TestStockRefused: a stock that does not go with the rest is refused.
func TestStockRefused(t *testing.T) {
	good := Config{
		Subject: noSubject{}, Mix: result.Mix{Sellers: 2, Buyers: 3}, Duration: time.Second, Funds: DefaultFunds,
		Workload: result.Workload{Stock: MaxStock},
	}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"a stock of -1 items": func(c *Config) { c.Stock = -1 },
		"want 0 to 1000000":   func(c *Config) { c.Stock = MaxStock + 1 },
		"all that there is":   func(c *Config) { c.Hot, c.Mix.Sellers = 1, 0 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrConfig and %q", err, want)
		}
	}
}

// TestTimeFor: a large market has more time, in proportion.
func TestTimeFor(t *testing.T) {
	ctx, cancel := timeFor(t.Context(), time.Minute, 4_000_000)
	defer cancel()
	if until, _ := ctx.Deadline(); time.Until(until) < 2*time.Minute+50*time.Second || time.Until(until) > 3*time.Minute {
		t.Errorf("it ends in %s, want 3m", time.Until(until))
	}
}
