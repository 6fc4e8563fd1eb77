package bench

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/alarm"
	"github.com/marketsim/marketsim/market"
)

var update = flag.Bool("update", false, "write the golden files anew")

// act is one operation of a script: how long it takes and how it ends.
type act struct {
	takes   time.Duration
	receipt market.Receipt
	err     error
}

// player returns a Purchaser's function that plays a script again and again, on synctest's clock.
func player(script []act) func() (market.Receipt, error) {
	next := 0
	return func() (market.Receipt, error) {
		a := script[next%len(script)]
		next++
		time.Sleep(a.takes)
		return a.receipt, a.err
	}
}

// No two things happen at the same instant, or chance would decide which is first: times are odd microseconds.
var buyerScript = []act{
	{takes: 3_017 * time.Microsecond, receipt: market.Receipt{Retries: 2, LockWait: time.Millisecond, LockHold: 2 * time.Millisecond}},
	{takes: 1_013 * time.Microsecond, err: market.ErrNotListed},
	{takes: 20_071 * time.Microsecond, receipt: market.Receipt{Polls: 5, LockWait: 20 * time.Millisecond}, err: market.ErrContended},
	{takes: 41_039 * time.Microsecond, receipt: market.Receipt{Polls: 1, Thrown: 7 * time.Millisecond, LeaseLost: true}},
	{takes: 5_003 * time.Microsecond, receipt: market.Receipt{ReleasesFailed: 1}, err: market.ErrPriceChanged},
	{takes: 700_207 * time.Microsecond, receipt: market.Receipt{LockWait: 600 * time.Millisecond}},
	{takes: 2_011 * time.Microsecond},
}

var sellerScript = []act{
	{takes: 11_027 * time.Microsecond, receipt: market.Receipt{Retries: 1}},
	{takes: 13_063 * time.Microsecond, receipt: market.Receipt{Polls: 3}, err: market.ErrContended},
}

// TestGoldenRow measures a Purchaser that plays a script, by synctest's clock, so that the whole row is known count by count:
// a driver that counts anything else, or at another time, is seen here.
func TestGoldenRow(t *testing.T) {
	for name, c := range map[string]Config{
		"closed": {Mix: result.Mix{Sellers: 1, Buyers: 2}, Warmup: time.Second, Duration: 10 * time.Second, Seed: 1},
		"open":   {Mix: result.Mix{Sellers: 1, Buyers: 1}, Warmup: time.Second, Duration: 10 * time.Second, Seed: 1, Rate: 10, Arrivals: Constant},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				compareGolden(t, "row-"+name+".json", played(t.Context(), c))
			})
		})
	}
}

// played is the row of workers who play the scripts.
func played(ctx context.Context, c Config) result.Row {
	m := fakeMeasurement(c,
		func(*measurement) market.Purchaser {
			play := player(sellerScript)
			return fake{onList: func(context.Context, market.Listing) (market.Receipt, error) { return play() }}
		},
		func(*measurement) market.Purchaser {
			play := player(buyerScript)
			return fake{onPurchase: func(context.Context, market.Order) (market.Receipt, error) { return play() }}
		})
	if m.open != nil {
		m.open.alarms = alarm.NewTimer
	}
	defer m.collector.run()()
	m.work(ctx)
	row := m.row()
	row.Client, row.Cost = nil, nil // they are this machine's
	return row
}

func compareGolden(t *testing.T, name string, row result.Row) {
	t.Helper()
	got, err := json.MarshalIndent(row, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: the row is\n%s\nand was\n%s", path, got, want)
	}
}
