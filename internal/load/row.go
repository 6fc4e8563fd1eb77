package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/market"
)

// Beyond these a row has a warning.
const (
	// How far buyers' busy time over the time that they were there is from 1.
	timesOff = 0.02
	// How far waits followed to their end over their parts within the row are from 1.
	tailOff = 0.1
	// Purchases of the second half over those of the first.
	steadyLow  = 0.8
	steadyHigh = 1.25
	// Orders of the warm-up made in the measured time over those that fell due in it.
	leftOverShare = 0.01
)

// row adds up what the workers have counted, and what the machine and the servers have used.
// No worker works any more: their tallies are read without a lock.
func (m *measurement) row() result.Row {
	t := newTally(m.window, purchaseTime, serviceTime, refusedTime, lockWaitTime, listTime)
	r := result.Row{
		Point:     m.point,
		Status:    m.window.status,
		Elsewhere: m.Subject.Elsewhere(),
		Seconds:   max(0, time.Duration(m.window.until.Load()).Seconds()),
		PerBuyer:  []int64{},
	}

	var present, busy time.Duration
	for _, w := range m.all() {
		t.add(w.tally)
		if w.role == buyer {
			r.PerBuyer = append(r.PerBuyer, w.tally.count[bought])
			present += w.tally.present
			busy += w.tally.busy
		}
	}
	// At a rate buyers wait for orders to fall due, so that how many were busy says nothing.
	if m.open == nil && r.Seconds > 0 {
		r.BusyBuyers = busy.Seconds() / r.Seconds
		r.PresentBuyer = present.Seconds() / r.Seconds
	}

	m.fill(&r, t) // before warn, which reads what it stores
	m.warn(&r, t)
	m.addUsage(&r, t)
	m.addMasters(&r)
	if r.Elsewhere {
		return asStored(r)
	}
	return r
}

// asStored is a row without what is not stored of it, so that nothing is shown that a
// report of the stored row does not have.
func asStored(r result.Row) (kept result.Row) {
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		panic(err) // a number of the row is NaN or infinite
	}
	return kept
}

// fill stores what the workers counted and timed, and what their connections carried.
func (m *measurement) fill(r *result.Row, t *tally) {
	n := &t.count
	r.Listed = n[listed]
	r.Bought = n[bought]
	if m.open != nil {
		r.Bought -= n[leftOver] // which are told apart, in r.Open
	}
	r.Retries = n[retries]
	r.ListRetries = n[listRetries]
	r.Polls = n[polls]
	r.ListPolls = n[listPolls]
	r.Refused = t.refused
	r.ContendedBeside = n[contendedBeside]
	r.Unknown = n[unknown]
	r.LeasesLost = n[leasesLost]
	r.FailedReleases = n[failedReleases]
	if int(n[broke]) < len(m.buyers) { // else it ended as no buyer had coins, and nothing was cut
		r.Cut = m.cut
	}

	r.WaitMS = latency(&t.took[purchaseTime])
	r.ServiceMS = latency(&t.took[serviceTime])
	r.GivenUpMS = latency(&t.took[refusedTime])
	r.LockWaitMS = latency(&t.took[lockWaitTime])
	r.ListMS = latency(&t.took[listTime])
	if r.WaitMS.Count > 0 {
		r.LockHoldMS = inMS(t.lockHold) / float64(r.WaitMS.Count)
	}
	// It cannot fail: it is encoded into memory.
	histogram, _ := t.took[purchaseTime].histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	r.Histogram = string(histogram)

	if r.Seconds > 0 {
		r.Began = m.began()
		r.CourseSeconds = time.Duration(m.window.interval()).Seconds()
		// A row that was cut short has only the intervals that began.
		begun := min(courseIntervals, int(math.Ceil(r.Seconds/r.CourseSeconds)))
		for i := range begun {
			passed(r, &t.course[i])
		}
	}

	// What a shared connection carries cannot be told apart by worker: then Market and Commands
	// stay nil.
	sharing := m.sharesConnections()
	if !sharing {
		r.Market = carried(t.traffic.market)
	}
	if t.traffic.lockServers != (redisconn.Counts{}) { // otherwise the lock has no servers of its own
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

// sharesConnections reports whether workers share a connection in some market.
func (m *measurement) sharesConnections() bool {
	return slices.ContainsFunc(m.markets, func(in *rowMarket) bool { return in.shared.Load() })
}

func carried(c redisconn.Counts) *result.Traffic {
	return &result.Traffic{
		RoundTrips: c.RoundTrips,
		Commands:   c.Commands,
		Bytes:      c.BytesSent + c.BytesReceived,
	}
}

// warn adds the warnings about what was counted. Those of processor time come from
// addUsage. The bounds stand in the comments of result.Code, too, and those of Unsteady and
// TooFew in the words of package view.
func (m *measurement) warn(r *result.Row, t *tally) {
	warn := func(is bool, code result.Code, value float64) {
		if is {
			r.Warn(code, value, "")
		}
	}

	buyers := int64(len(m.buyers))
	penniless := t.count[broke]
	warn(penniless == buyers, result.AllBroke, 0)
	warn(penniless > 0 && penniless < buyers, result.SomeBroke, float64(penniless))

	var clipped int64
	for _, k := range t.took {
		clipped += k.clipped
	}
	warn(clipped > 0, result.Clipped, float64(clipped))
	warn(r.Cut > 0, result.WereCut, float64(r.Cut))
	warn(t.count[fromWarmup] > 0, result.WarmupUnderway, float64(t.count[fromWarmup]))
	if o := r.Open; o != nil {
		waited := o.LeftOver > buyers // and were not only under way
		many := float64(o.LeftOver) > leftOverShare*float64(o.Due)
		warn(waited && many, result.LeftOver, float64(o.LeftOver))
	}

	// NaN, which is no warning, if nobody was there or in an open loop.
	off := r.BusyBuyers/r.PresentBuyer - 1
	warn(math.Abs(off) > timesOff, result.TimesOff, 1+off)
	silent := time.Duration(0)
	for _, in := range m.markets {
		silent = max(silent, in.longestSilence)
	}
	warn(silent > silenceLimit(time.Duration(r.Seconds*float64(time.Second))), result.NoReply, inMS(silent))
	warn(withoutPurchase(r), result.NothingBought, 0)

	if r.Status != stored.Complete || r.Bought == 0 { // halves and tails of such a row say nothing
		return
	}
	if !r.EnoughPurchases() {
		r.Warn(result.TooFew, float64(r.Bought), "")
		return
	}

	steadiness := r.Steadiness()
	gone := r.Refused[market.Reason(market.ErrNotListed)]
	soldOut := steadiness < steadyLow && gone > r.Bought && m.point.Hot == 0
	warn(steadiness < steadyLow || steadiness > steadyHigh, result.Unsteady, steadiness)
	warn(soldOut, result.OutOfStock, float64(gone)/float64(gone+r.Bought))

	whole := t.ordersWhole.Seconds() / t.orders.Seconds()
	warn(m.open == nil && math.Abs(whole-1) > tailOff, result.ShortForTail, whole)
}

// latency is what a row stores of durations, which must have a histogram: those of row's own
// tally and of a course do.
func latency(t *durations) result.Latency {
	n := t.histogram.TotalCount()
	if n == 0 {
		return result.Latency{}
	}

	// In ms; the histogram is in us. It tells the upper end of a value's bucket, which may lie
	// above the longest.
	percentile := func(perMille int64) float64 {
		return min(inMS(t.longest), float64(nearestRank(t.histogram, perMille))/1000)
	}
	return result.Latency{
		Mean:  inMS(t.sum) / float64(n),
		P50:   percentile(500),
		P90:   percentile(900),
		P99:   percentile(990),
		P999:  percentile(999),
		Max:   inMS(t.longest),
		Count: n,
	}
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// nearestRank is the percentile by nearest rank, whose rank is rounded up. The library's
// own ValueAtQuantile rounds the rank half up, and so takes the 257th of 260 values for
// the 99th percentile, though 1.2% of them are larger.
func nearestRank(h *hdrhistogram.Histogram, perMille int64) int64 {
	n := h.TotalCount()
	rank := (n*perMille + 999) / 1000
	return h.ValueAtQuantile(100 * float64(rank) / float64(n)) // which rounds to rank
}

// ErrNothingBought is returned, wrapped, by NothingBought.
var ErrNothingBought = errors.New("nothing was bought")

const enough = time.Second // how long a row has to last before it should have a purchase

// NothingBought returns ErrNothingBought, wrapped, if all rows of a strategy are without
// a purchase and one of them, of a second or more, has no excuse: buyers without coins
// or, if no items circulate, sellers that kept taking the locks.
func NothingBought(rows []result.Row, planned time.Duration) error {
	bought := map[string]int64{}
	for _, r := range rows {
		bought[r.Subject()] += r.Purchases()
	}

	for _, r := range rows {
		contended := r.ContendedOrders()
		starved := r.Hot == 0 && contended > 0 && r.Listed > 0 && r.FailedReleases == 0
		// A row that was planned as a shorter one, and took longer, stood still.
		lasted := planned >= enough && r.Seconds >= enough.Seconds()
		if bought[r.Subject()] == 0 && withoutPurchase(&r) && lasted && !starved {
			return fmt.Errorf("%w with %s in any of its rows: in the %.1f s of %s, %d items were listed, "+
				"%d orders were given up under contention, and %d locks could not be released; "+
				"try a longer --duration, another lock or fewer workers",
				ErrNothingBought, r.Subject(), r.Seconds, r.Name(), r.Listed, contended, r.FailedReleases)
		}
	}
	return nil
}

// withoutPurchase reports whether a complete row had orders to make, bought nothing, and
// refused no order for lack of coins.
func withoutPurchase(r *result.Row) bool {
	return r.Purchases() == 0 && r.Status == stored.Complete && (r.Open == nil || r.Open.Due > 0) &&
		r.Refused[market.Reason(market.ErrInsufficientFunds)] == 0
}
