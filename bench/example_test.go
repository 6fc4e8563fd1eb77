package bench_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/strategies"
)

// A load is measured of whatever opens Purchasers: here a strategy of this module's, and
// in verify/markettest's example a purchase of its author's.
func Example() {
	_ = TestFine // run by go test
}

func TestFine(t *testing.T) {
	spec, err := strategies.Builtin().Parse("fine:set-px")
	if err != nil {
		t.Fatal(err)
	}
	mix, options := result.Mix{Sellers: 5, Buyers: 5}, bench.Options{Duration: time.Second}
	row, err := bench.Measure(t.Context(), spec.OpenFor, mix, options)
	if err != nil || !row.Audit.OK {
		t.Fatal(err, row.Audit.Problems)
	}
	t.Logf("%d purchases in %.0f s; 99%% of them took less than %.1f ms", row.Bought, row.Seconds, row.WaitMS.P99)
}
