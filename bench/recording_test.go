package bench

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// TestHistory: a row's history holds every operation that the row counts, the locks, and the market's end.
func TestHistory(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine-wallet"))
		c.Mix, c.History = Mix{Sellers: 2, Buyers: 2}, t.TempDir()
		row, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		h, err := history.Read(c.History)
		if err != nil {
			t.Fatal(err)
		}
		var listed, bought int64
		for _, o := range h.Ops {
			switch {
			case o.Outcome != history.Applied:
			case o.Kind == history.List:
				listed++
			default:
				bought++
			}
		}
		if listed != row.Listed || bought != row.Bought {
			t.Errorf("the history has %d listings and %d purchases, the row %d and %d", listed, bought, row.Listed, row.Bought)
		}
		if int64(len(h.Final)) != row.Audit.Items || len(h.Mints)*market.BatchSize != len(h.Final) {
			t.Errorf("%d items at the end, %d batches minted, %d items audited", len(h.Final), len(h.Mints), row.Audit.Items)
		}
		// fine-wallet locks the item for a listing, and the item and the account for a purchase.
		if want := row.Listed + 2*row.Bought; int64(len(h.Holds)) < want {
			t.Errorf("%d holds of locks, want %d or more", len(h.Holds), want)
		}
		if len(h.Workers) != 4 || h.Accounts != 4 || h.Subject != "fine-wallet" || h.Run != c.Keys.Prefix() {
			t.Errorf("header %+v of workers %v", h.Header, h.Workers)
		}
		if _, err := Run(t.Context(), c); !errors.Is(err, history.ErrExists) {
			t.Errorf("a second row in the same folder: %v, want %v", err, history.ErrExists)
		}
	})
}

// TestHistoryOfAMarketThatIsGone: a history without an end gets no verdict.
func TestHistoryOfAMarketThatIsGone(t *testing.T) {
	s := backendtest.Local(t)
	c := config(t, s, onPurchase(t, "watch", func(context.Context, market.Order, market.Purchaser) (market.Receipt, error) {
		s.Close()
		return market.Receipt{}, errLost
	}))
	c.History = t.TempDir()
	if _, err := Run(t.Context(), c); err == nil {
		t.Error("the row has no error")
	}
	if _, err := history.Read(c.History); !errors.Is(err, history.ErrDamaged) {
		t.Errorf("Read: %v, want %v", err, history.ErrDamaged)
	}
}

// TestHistoryOfARowThatDidNotBegin: what recorded nothing leaves nothing, and a row may be recorded in its place.
func TestHistoryOfARowThatDidNotBegin(t *testing.T) {
	c := config(t, backendtest.Embedded(t), spec(t, "fine"))
	c.History = t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	dial := c.Dial
	c.Dial = func(ctx context.Context) (*backend.Conn, error) {
		if _, err := history.Find(c.History); err == nil { // a worker connects
			interrupt()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return dial(ctx)
	}
	row, err := Run(ctx, c)
	if err != nil || row.Status != Interrupted {
		t.Fatalf("the row is %s, %v; want it %s", row.Status, err, Interrupted)
	}
	if dirs, err := history.Find(c.History); !errors.Is(err, history.ErrNone) {
		t.Errorf("Find: %v, %v; want %v", dirs, err, history.ErrNone)
	}
}
