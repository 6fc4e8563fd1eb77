package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// ErrNothingBought is returned, wrapped, by NothingBought.
var ErrNothingBought = errors.New("nothing was bought")

// enough is how long a row has to last before a purchase can be asked for.
const enough = time.Second

// warnOfNothing adds a warning to a complete row without a purchase. It is no error: under contention a strategy may buy
// nothing in one round, and the rounds go on.
func warnOfNothing(r *result.Row) {
	if withoutPurchase(*r) {
		r.Warnings = append(r.Warnings, "nothing was bought: "+instead(*r))
	}
}

// NothingBought returns ErrNothingBought, wrapped, if all rows of a strategy are without a purchase although they were to
// last for a second or more, and one that did has no reason for it: neither were its buyers out of coins, nor were sellers
// faster than they for as long as they tried. Of a hot market the latter is no reason: without sellers, whoever keeps a
// buyer from buying has bought. Something is then wrong with the strategy, its lock or its parameters.
func NothingBought(rows []result.Row, planned time.Duration) error {
	if planned < enough {
		return nil // a row that took longer stood still
	}
	bought := map[string]bool{}
	for _, r := range rows {
		bought[r.Strategy] = bought[r.Strategy] || r.Bought > 0
	}
	for _, r := range rows {
		starved := r.Hot == 0 && r.Contended > 0 && r.Listed > 0 && unreleased(r) == 0
		if !bought[r.Strategy] && withoutPurchase(r) && r.Seconds >= enough.Seconds() && !starved {
			return fmt.Errorf("%w with %s in any of its rows: in the %.1f s of %s, %s; try a longer --duration, another lock "+
				"or fewer %s", ErrNothingBought, r.Strategy, r.Seconds, r.Name(), instead(r), others(r))
		}
	}
	return nil
}

// others are the workers who may keep a row's buyers from buying.
func others(r result.Row) string {
	if r.Hot > 0 {
		return "buyers"
	}
	return "sellers"
}

// withoutPurchase reports whether a complete row should have a purchase and has none.
func withoutPurchase(r result.Row) bool {
	if r.Open != nil && (r.Open.Reached > 0 || r.Open.Offered == 0) {
		return false
	}
	return r.Bought == 0 && r.Status == result.Complete &&
		r.Refused[market.Reason(market.ErrInsufficientFunds)] == 0
}

// instead is what was done in a row without a purchase.
func instead(r result.Row) string {
	return fmt.Sprintf("%d items were listed, %d orders were given up under contention, and %d locks could not be released",
		r.Listed, r.Contended, unreleased(r))
}

// unreleased is how many locks could not be given back; older runs did not count them.
func unreleased(r result.Row) int64 {
	if r.FailedReleases == nil {
		return 0
	}
	return *r.FailedReleases
}
