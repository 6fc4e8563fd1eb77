package load

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/market"
)

// act is one operation of a script: how long it takes and how it ends.
type act struct {
	takes   time.Duration
	receipt market.Receipt
	err     error
}

// player returns a function of a Purchaser that plays a script again and again,
// on synctest's clock.
func player(script []act) func() (market.Receipt, error) {
	next := 0
	return func() (market.Receipt, error) {
		a := script[next%len(script)]
		next++
		time.Sleep(a.takes)
		return a.receipt, a.err
	}
}

// No two things happen at the same instant, or chance would decide which is
// first: times are odd microseconds.
var buyerScript = []act{
	{
		takes:   3_017 * time.Microsecond,
		receipt: market.Receipt{Retries: 2, LockWait: time.Millisecond, LockHold: 2 * time.Millisecond},
	},
	{takes: 1_013 * time.Microsecond, err: market.ErrNotListed},
	{
		takes:   20_071 * time.Microsecond,
		receipt: market.Receipt{Polls: 5, LockWait: 20 * time.Millisecond},
		err:     market.ErrContended,
	},
	{
		takes:   41_039 * time.Microsecond,
		receipt: market.Receipt{Polls: 1, Thrown: 7 * time.Millisecond, LeaseLost: true},
	},
	{
		takes:   5_003 * time.Microsecond,
		receipt: market.Receipt{ReleasesFailed: 1},
		err:     market.ErrPriceChanged,
	},
	{takes: 700_207 * time.Microsecond, receipt: market.Receipt{LockWait: 600 * time.Millisecond}},
	{takes: 2_011 * time.Microsecond},
}

var sellerScript = []act{
	{takes: 11_027 * time.Microsecond, receipt: market.Receipt{Retries: 1}},
	{takes: 13_063 * time.Microsecond, receipt: market.Receipt{Polls: 3}, err: market.ErrContended},
}

// scripted is a row of 1x2, of a second of warm-up and ten that are measured,
// whose workers play the scripts.
func scripted(ctx context.Context) result.Row {
	m := fakeMeasurement(plan{
		Point:   result.Point{Mix: result.Mix{Sellers: 1, Buyers: 2}},
		Options: Options{Warmup: time.Second, Duration: 10 * time.Second, Seed: 1},
	}, func(*measurement) market.Purchaser {
		play := player(sellerScript)
		return fake{onList: func(context.Context, market.Listing) (market.Receipt, error) {
			return play()
		}}
	}, func(*measurement) market.Purchaser {
		play := player(buyerScript)
		return fake{onPurchase: func(context.Context, market.Order) (market.Receipt, error) {
			return play()
		}}
	})
	m.work(ctx)
	return m.row()
}

// TestGoldenRow counts every operation of a row whose Purchasers play a script. The
// numbers are those of the driver before this one (at 98829b3), and so are the waits, but
// for what a histogram rounds.
func TestGoldenRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t.Context())

		for name, c := range map[string]struct{ got, want int64 }{
			"ended: bought":   {r.Bought, 104},
			"ended: listed":   {r.Listed, 415},
			"of one buyer":    {r.PerBuyer[0], 52},
			"began: bought":   {r.WaitMS.Count, 104},
			"began: listed":   {r.ListMS.Count, 415},
			"given up":        {r.GivenUpMS.Count, 78},
			"retries":         {r.Retries, 52},
			"list retries":    {r.ListRetries, 415},
			"unknown":         {r.Unknown, 0},
			"polls":           {r.Polls, 156},
			"list polls":      {r.ListPolls, 1245},
			"leases lost":     {r.LeasesLost, 26},
			"failed releases": {r.FailedReleases, 26},
			"lock waits":      {r.LockWaitMS.Count, 104},
			"cut":             {r.Cut, 0},
			"in the course":   {sum(r.Course), r.Bought},
		} {
			if c.got != c.want {
				t.Errorf("%s: %d, want %d", name, c.got, c.want)
			}
		}

		want := map[string]int64{"contended": 441, "not_listed": 26, "price_changed": 26}
		if !maps.Equal(r.Refused, want) {
			t.Errorf("refused %v, want %v", r.Refused, want)
		}

		courseWrong := len(r.Course) != 20 || r.CourseSeconds != 0.5
		if courseWrong || r.Seconds != 10 || r.Status != stored.Complete {
			t.Errorf("%s, %v s, a course of %d times %v s",
				r.Status, r.Seconds, len(r.Course), r.CourseSeconds)
		}

		for name, c := range map[string]struct{ got, want float64 }{
			"wait":           {r.WaitMS.Mean, (3.017 + 41.039 + 700.207 + 2.011) / 4},
			"listing":        {r.ListMS.Mean, 11.027},
			"given up":       {r.GivenUpMS.Mean, (1.013 + 20.071 + 5.003) / 3},
			"lock wait":      {r.LockWaitMS.Mean, 601. / 4},
			"lock held":      {r.LockHoldMS, 2. / 4},
			"longest":        {r.WaitMS.Max, 700.207},
			"busy buyers":    {r.BusyBuyers, 2},
			"present buyers": {r.PresentBuyer, 2},
		} {
			if c.got < c.want*0.999999 || c.got > c.want*1.000001 {
				t.Errorf("%s: %v, want %v", name, c.got, c.want)
			}
		}
	})
}
