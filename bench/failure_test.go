package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// TestServerDies: the server is killed in the middle of a row, by the purchase that meets it.
func TestServerDies(t *testing.T) {
	for _, name := range []string{"watch", "fine-wallet"} {
		s := backendtest.Local(t)
		n := 0
		c := config(t, s, onPurchase(t, name, func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
			if n++; n == 20 {
				if err := s.Kill(); err != nil {
					t.Error(err)
				}
			}
			return next.Purchase(ctx, o)
		}))
		c.Mix, c.Purchases, c.Duration = Mix{5, 1}, 0, time.Minute
		start := time.Now()
		row, err := Run(t.Context(), c)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: Run took %s to notice", name, took)
		}
		if err == nil || row.Status != Incomplete || row.Bought == 0 || row.Audit.Done {
			t.Fatalf("%s: %s, bought %d, audited %t, %v; want incomplete, the purchases until then, not audited",
				name, row.Status, row.Bought, row.Audit.Done, err)
		}
		for _, part := range []string{"row " + name + " 5x1", "could not be audited", "left behind", "clean --prefix " + c.Keys.Prefix()} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error does not say %q: %v", name, part, err)
			}
		}
	}
}

// TestPrivateServerDies: keys on a server that ends with the run are nobody's trouble.
func TestPrivateServerDies(t *testing.T) {
	s := backendtest.Local(t)
	c := config(t, s, onPurchase(t, "watch", func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
		return next.Purchase(ctx, o)
	}))
	c.Private = true
	if _, err := Run(t.Context(), c); err == nil || strings.Contains(err.Error(), "left behind") {
		t.Errorf("error %v should say nothing of keys", err)
	}
}

// TestOutOfMemory: sellers fill the server. What is refused is not applied, the audit agrees, and the market can
// still be removed.
func TestOutOfMemory(t *testing.T) {
	s := backendtest.Local(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	for _, name := range []string{"fine", "coarse", "watch"} {
		c := config(t, s, spec(t, name))
		c.Mix, c.Purchases, c.Duration = Mix{5, 1}, 0, time.Minute
		row, err := Run(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), "OOM") || strings.Contains(err.Error(), "left behind") {
			t.Errorf("%s: error %v, want OOM", name, err)
		}
		if row.Status != Incomplete || row.Listed == 0 || !row.Audit.Done || !row.Audit.OK {
			t.Errorf("%s: %s, %d listed, audit %+v", name, row.Status, row.Listed, row.Audit)
		}
		gone(t, s, c.Keys)
	}
}

// TestUnsafeIsCaught: the control loses items and coins when several buy, and the audit tells.
func TestUnsafeIsCaught(t *testing.T) {
	c := config(t, backendtest.Local(t), spec(t, "unsafe"))
	c.Mix, c.Purchases, c.Duration = mix5x5, 0, 700*time.Millisecond
	row, err := Run(t.Context(), c)
	if err != nil || row.Status != Complete {
		t.Fatalf("%s, %v: a violation is not an error", row.Status, err)
	}
	if !row.Audit.Done || row.Audit.OK || row.Audit.ItemProblems == 0 || row.Audit.MoneyProblems == 0 {
		t.Errorf("%d purchases, audit %+v; want items and accounts wrong", row.Bought, row.Audit)
	}
	if len(row.Audit.Problems) == 0 {
		t.Error("no problem is told in words")
	}
	t.Logf("%d purchases, %d items and %d of 10 accounts wrong", row.Bought, row.Audit.ItemProblems, row.Audit.MoneyProblems)
}

// TestSafeIsNot: the others lose nothing under the same load.
func TestSafeIsNot(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, name := range []string{"watch", "coarse", "fine", "fine-wallet"} {
			c := config(t, s, spec(t, name))
			c.Mix, c.Purchases, c.Duration = mix5x5, 0, 200*time.Millisecond
			row, err := Run(t.Context(), c)
			if err != nil || row.Status != Complete || !row.Audit.Done || !row.Audit.OK {
				t.Errorf("%s: %s, %v, audit %+v", name, row.Status, err, row.Audit)
			}
		}
	})
}
