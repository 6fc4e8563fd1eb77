package bench

import (
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// TestNothingBought: a row without a purchase has a warning, unless the buyers could not pay. A strategy that bought
// nothing in any of its rows has failed, unless sellers were faster or its rows too short.
func TestNothingBought(t *testing.T) {
	for name, c := range map[string]struct {
		seconds          float64
		refused          map[string]int64
		bought, released int64
		open             *result.Open
		fails, warns     bool
	}{
		"bought":               {seconds: 1, bought: 1},
		"no reason":            {seconds: 1, fails: true, warns: true},
		"out of coins":         {seconds: 1, refused: map[string]int64{market.Reason(market.ErrInsufficientFunds): 1}},
		"too short":            {seconds: 0.5, warns: true},
		"sellers are faster":   {seconds: 1, refused: map[string]int64{market.Reason(market.ErrContended): 1}, warns: true},
		"locks are not freed":  {seconds: 1, refused: map[string]int64{market.Reason(market.ErrContended): 1}, released: 1, fails: true, warns: true},
		"leases are too short": {seconds: 1, refused: map[string]int64{market.Reason(market.ErrLockLost): 1}, fails: true, warns: true},
		"nothing was due":      {seconds: 1, open: &result.Open{}},
	} {
		row := result.Row{
			Strategy: "some", Sellers: 5, Buyers: 5, Status: result.Complete, Seconds: c.seconds, Listed: 9, Bought: c.bought,
			Refused: c.refused, Contended: c.refused[market.Reason(market.ErrContended)], FailedReleases: &c.released, Open: c.open,
		}
		warnOfNothing(&row)
		other := result.Row{Strategy: "other", Status: result.Complete, Bought: 1}
		err := NothingBought([]result.Row{row, other}, enough)
		if errors.Is(err, ErrNothingBought) != c.fails || (len(row.Warnings) > 0) != c.warns {
			t.Errorf("%s: %v, warnings %q; want an error %t, a warning %t", name, err, row.Warnings, c.fails, c.warns)
		}
		other.Strategy = row.Strategy
		if err := NothingBought([]result.Row{row, other}, enough); err != nil {
			t.Errorf("%s, and a round with a purchase: %v", name, err)
		}
	}
	hot := result.Row{Strategy: "some", Buyers: 8, Workload: result.Workload{Hot: 1}, Status: result.Complete, Seconds: 1, Listed: 1, Contended: 1}
	if err := NothingBought([]result.Row{hot}, enough); !errors.Is(err, ErrNothingBought) || !strings.HasSuffix(err.Error(), "or fewer buyers") {
		t.Errorf("without sellers, nobody was faster than the buyers: %v", err)
	}
	stoodStill := result.Row{Strategy: "some", Status: result.Complete, Seconds: 3}
	if err := NothingBought([]result.Row{stoodStill}, enough/2); err != nil {
		t.Errorf("a short row on a machine that stood still: %v", err)
	}
	if err := NothingBought(nil, enough); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

// TestRowsGoOn: a row without a purchase is complete, and says so.
func TestRowsGoOn(t *testing.T) {
	cannotBuy := onPurchase(t, "fine", func(attempt) (market.Receipt, error) {
		return market.Receipt{}, market.ErrNotListed
	})
	c := config(t, testkit.Local(t), cannotBuy)
	c.Purchases, c.Duration = 0, enough
	row, err := Run(t.Context(), c)
	if err != nil || row.Status != result.Complete || !strings.Contains(strings.Join(row.Warnings, "; "), "nothing was bought: ") {
		t.Errorf("%s, %v, warnings %q; want a complete row with a warning", row.Status, err, row.Warnings)
	}
	if err := NothingBought([]result.Row{row}, enough); !errors.Is(err, ErrNothingBought) {
		t.Errorf("%v; want %v", err, ErrNothingBought)
	}
}
