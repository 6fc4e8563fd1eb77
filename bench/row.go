package bench

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/results/stored"
)

// Beyond these a row has a warning.
const (
	timesOff              = 0.02      // what buyers did from how long they were there: the rest lies between operations
	tailOff               = 0.1       // waits that are followed to their end from their parts within the row
	steadyLow, steadyHigh = 0.8, 1.25 // purchases of the second half over those of the first
	leftOverShare         = 0.01      // orders of the warm-up made in the measured time over those that fell due in it
)

func (m *measurement) row() result.Row {
	t := newTally(m.window, purchaseTime, serviceTime, refusedTime, lockWaitTime, listTime, browseTime)
	r := result.Row{Point: m.point, Status: m.window.status, PerBuyer: []int64{}}
	r.Elsewhere = m.Subject.Elsewhere()
	r.Seconds = max(0, time.Duration(m.window.until.Load()).Seconds())
	var present, busy time.Duration
	for _, w := range m.all() {
		t.add(w.tally)
		if w.role == buyer {
			r.PerBuyer = append(r.PerBuyer, w.tally.count[bought])
			present, busy = present+w.tally.present, busy+w.tally.busy
		}
	}
	m.fill(&r, t)
	if m.open == nil && r.Seconds > 0 {
		r.BusyBuyers, r.PresentBuyer = busy.Seconds()/r.Seconds, present.Seconds()/r.Seconds
	}
	m.warn(&r, t)
	m.addUsage(&r, t)
	if r.Elsewhere { // nobody sees what programs wait for and send
		r.LockWaitMS, r.ClientCPU = result.Latency{}, nil
		r.Market, r.Commands, r.Background = nil, nil, nil
	}
	return r
}

func (m *measurement) fill(r *result.Row, t *tally) {
	n := &t.count
	r.Listed, r.Bought = n[listed], n[bought]
	r.Retries, r.ListRetries, r.Polls, r.ListPolls = n[retries], n[listRetries], n[polls], n[listPolls]
	r.Refused, r.ContendedBeside, r.Unknown, r.TornReads = t.refused, n[contendedBeside], n[unknown], n[torn]
	r.LeasesLost, r.FailedReleases = n[leasesLost], n[failedReleases]
	if m.open != nil {
		r.Bought -= n[leftOver]
	}
	if int(n[broke]) < len(m.buyers) { // or the load ended with the last of them
		r.Cut = m.cut
	}
	r.WaitMS = latency(&t.took[purchaseTime])
	r.ServiceMS = latency(&t.took[serviceTime])
	r.GivenUpMS = latency(&t.took[refusedTime])
	r.LockWaitMS = latency(&t.took[lockWaitTime])
	r.ListMS = latency(&t.took[listTime])
	r.BrowseMS = latency(&t.took[browseTime])
	if r.WaitMS.Count > 0 {
		r.LockHoldMS = inMS(t.lockHold) / float64(r.WaitMS.Count)
	}
	histogram, _ := t.took[purchaseTime].histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase) // into memory
	r.Histogram = string(histogram)
	if r.Seconds > 0 {
		step := time.Duration(m.window.interval()).Seconds()
		began := min(courseIntervals, int(math.Ceil(r.Seconds/step)))
		r.CourseSeconds, r.Course = step, slices.Clone(t.course[:began])
	}
	sharing := slices.ContainsFunc(m.markets, func(in *rowMarket) bool { return in.shared.Load() })
	if !sharing {
		r.Market = carried(t.traffic.market)
	}
	if t.traffic.lockServers != (backend.Counts{}) { // or the lock has no servers of its own
		r.LockServers = carried(t.traffic.lockServers)
	}
	if r.Seconds > 0 {
		r.Background = carried(m.last.background.Sub(m.first.background))
		if all := carried(m.last.market.Sub(m.first.market)); !sharing {
			r.Commands = &all.Commands
		}
		r.Open = m.open.report(m, t)
	}
}

func carried(c backend.Counts) *result.Traffic {
	return &result.Traffic{RoundTrips: c.RoundTrips, Commands: c.Commands, Bytes: c.BytesSent + c.BytesReceived}
}

func (m *measurement) warn(r *result.Row, t *tally) {
	switch n := int(t.count[broke]); {
	case n == len(m.buyers):
		r.Warn(result.AllBroke, 0, "")
	case n > 0:
		r.Warn(result.SomeBroke, float64(n), "")
	}
	var clipped int64
	for _, k := range t.took {
		clipped += k.clipped
	}
	if clipped > 0 {
		r.Warn(result.Clipped, float64(clipped), "")
	}
	if r.Cut > 0 {
		r.Warn(result.WereCut, float64(r.Cut), "")
	}
	if n := t.count[fromWarmup]; n > 0 {
		r.Warn(result.WarmupUnderway, float64(n), "")
	}
	if o := r.Open; o != nil {
		waited := o.LeftOver > int64(len(m.buyers)) // and were not only under way
		if waited && float64(o.LeftOver) > leftOverShare*float64(o.Due) {
			r.Warn(result.LeftOver, float64(o.LeftOver), "")
		}
	}
	if off := r.BusyBuyers/r.PresentBuyer - 1; math.Abs(off) > timesOff { // NaN where nobody was there
		r.Warn(result.TimesOff, 1+off, "")
	}
	for _, in := range m.markets {
		if in.silent > silence(time.Duration(r.Seconds*float64(time.Second))) {
			r.Warn(result.NoReply, inMS(in.silent), "")
		}
	}
	if withoutPurchase(r) {
		r.Warn(result.NothingBought, 0, "")
	}
	if r.Status != stored.Complete || r.Bought == 0 { // of these, halves and tails are not asked for
		return
	}
	if r.Bought < result.EnoughPurchases {
		r.Warn(result.TooFew, float64(r.Bought), "")
		return
	}
	if s := r.Steadiness(); s < steadyLow || s > steadyHigh {
		r.Warn(result.Unsteady, s, "")
	}
	gone := r.Refused[market.Reason(market.ErrNotListed)]
	if r.Steadiness() < steadyLow && gone > r.Bought && m.point.Hot == 0 {
		r.Warn(result.OutOfStock, float64(gone)/float64(gone+r.Bought), "")
	}
	whole := t.ordersWhole.Seconds() / t.orders.Seconds()
	if m.open == nil && math.Abs(whole-1) > tailOff {
		r.Warn(result.ShortForTail, whole, "")
	}
}

func latency(t *durations) result.Latency {
	n := t.histogram.TotalCount()
	if n == 0 {
		return result.Latency{}
	}
	percentile := func(perMille int64) float64 {
		return min(inMS(t.longest), float64(nearestRank(t.histogram, perMille))/1000)
	}
	return result.Latency{
		Mean: inMS(t.sum) / float64(n), P50: percentile(500), P90: percentile(900), P99: percentile(990),
		P999: percentile(999), Max: inMS(t.longest), Count: n,
	}
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// nearestRank is the percentile by nearest rank, whose rank is rounded up. The library's own ValueAtQuantile rounds the
// rank half up, and so takes the 257th of 260 values for the 99th percentile, though 1.2% of them are larger.
func nearestRank(h *hdrhistogram.Histogram, perMille int64) int64 {
	n := h.TotalCount()
	rank := (n*perMille + 999) / 1000
	return h.ValueAtQuantile(100 * float64(rank) / float64(n)) // which rounds to rank
}

var ErrNothingBought = errors.New("nothing was bought") // ErrNothingBought is returned, wrapped, by NothingBought.

const enough = time.Second // how long a row has to last before a purchase can be asked for

// NothingBought returns ErrNothingBought, wrapped, if all rows of a strategy are without a purchase, and in one of a
// second or more neither were buyers out of coins nor sellers faster than they, which in a hot market is no reason.
func NothingBought(rows []result.Row, planned time.Duration) error {
	bought := map[string]int64{}
	for _, r := range rows {
		bought[r.Strategy] += r.Made()
	}
	for _, r := range rows {
		contended := r.ContendedOrders()
		starved := r.Hot == 0 && contended > 0 && r.Listed > 0 && r.FailedReleases == 0
		lasted := planned >= enough && r.Seconds >= enough.Seconds() // a row that took longer than planned stood still
		if bought[r.Strategy] == 0 && withoutPurchase(&r) && lasted && !starved {
			return fmt.Errorf("%w with %s in any of its rows: in the %.1f s of %s, %d items were listed, "+
				"%d orders were given up under contention, and %d locks could not be released; "+
				"try a longer --duration, another lock or fewer workers",
				ErrNothingBought, r.Strategy, r.Seconds, r.Name(), r.Listed, contended, r.FailedReleases)
		}
	}
	return nil
}

func withoutPurchase(r *result.Row) bool {
	return r.Made() == 0 && r.Status == stored.Complete && (r.Open == nil || r.Open.Due > 0) &&
		r.Refused[market.Reason(market.ErrInsufficientFunds)] == 0
}
