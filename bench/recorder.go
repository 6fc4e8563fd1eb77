package bench

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// The histograms cover 1 us to 60 s with 3 significant digits.
const (
	lowestWait  = int64(1)          // us
	highestWait = int64(60_000_000) // us
	digits      = 3
)

// counter is one of the numbers that workers count, operations of the warm-up excluded. A new one is a line here, the
// line that counts it, and the line in Row that puts the sum into a field of result.Row.
type counter int

const (
	listed counter = iota
	bought
	retries // of purchases
	listRetries
	unknown // operations whose outcome the client does not know
	leasesLost
	polls
	orderPolls // of polls, those for orders
	listPolls  // and those for listings
	browsed
	torn
	failedReleases
	counters // how many there are
)

// recorder records each operation of one worker: what it cost, in the ledger that the audit needs, and in the
// history if there is one. It keeps counters of its own, and hands times to the collector. It allocates nothing once it
// is made.
type recorder struct {
	ledger    *market.Ledger
	history   *history.Recorder // nil: nothing is recorded
	collector *collector        // of the row
	samples   *ring             // from this worker to the collector

	count   [counters]int64  // of operations after the warm-up
	traffic traffic          // of purchases, browsing excluded
	refused map[string]int64 // by reason
	broke   bool             // the worker ended because its account was empty
	blocked int64            // times that the worker found its ring full
}

func newRecorder(c *collector, accounts int) *recorder {
	return &recorder{
		ledger: market.NewLedger(accounts), collector: c, samples: c.ring(), refused: map[string]int64{},
	}
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowestWait, highestWait, digits) }

// minted records a batch of items.
func (r *recorder) minted(start, end time.Time, first market.ItemID, owner market.UserID, err error) {
	r.history.Minted(start, end, first, owner, err)
	r.ledger.Minted(first, owner, err)
}

// began is when an operation began, as samples tell it, and whether that was after the warm-up.
func (r *recorder) began(start time.Time) (at int64, counted bool) {
	at = r.collector.since(start)
	return at, at >= r.collector.from.Load()
}

// counts reports whether an operation that began then belongs to the row, and not to its warm-up.
func (r *recorder) counts(start time.Time) bool {
	_, counted := r.began(start)
	return counted
}

// listed records a listing.
func (r *recorder) listed(start, end time.Time, l market.Listing, receipt market.Receipt, err error) {
	r.history.Listed(start, end, l, err)
	r.ledger.Listed(l, err)
	at, counted := r.began(start)
	if !counted {
		return
	}
	r.count[listRetries] += int64(receipt.Retries)
	r.count[listPolls] += int64(receipt.Polls)
	r.operation(receipt, err)
	if err == nil {
		r.count[listed]++
		r.hand(sample{wait: listWait, start: at, took: int64(end.Sub(start))})
	}
}

// purchased records an order. asked is when the purchase was asked for: its start or, in an open loop, when it was due.
func (r *recorder) purchased(
	asked, start, end time.Time, o market.Order, cost traffic, receipt market.Receipt, err error,
) {
	r.history.Purchased(start, end, o, err)
	r.ledger.Purchased(o, err)
	at, counted := r.began(asked)
	if !counted {
		return
	}
	switch {
	case err == nil:
		tries := int32(1 + receipt.Retries + receipt.Polls)
		r.hand(sample{wait: purchaseWait, start: at, took: int64(end.Sub(asked)), tries: tries})
	case market.Refused(err): // what was tried before and after it counts by itself
		r.hand(sample{wait: givenUpWait, start: at, took: int64(end.Sub(start))})
	}
	r.count[retries] += int64(receipt.Retries)
	r.count[orderPolls] += int64(receipt.Polls)
	r.traffic.market = r.traffic.market.Add(cost.market)
	r.traffic.lockServers = r.traffic.lockServers.Add(cost.lockServers)
	r.operation(receipt, err)
	if err == nil {
		r.count[bought]++
		r.hand(sample{wait: lockWait, start: at, took: int64(receipt.LockWait)})
	}
}

// served records how long a purchase of an open loop took from when a buyer took it up.
func (r *recorder) served(due, taken, end time.Time) {
	if at, counted := r.began(due); counted {
		r.hand(sample{wait: serviceWait, start: at, took: int64(end.Sub(taken))})
	}
}

// sighted records what a browser saw.
func (r *recorder) sighted(start, end time.Time, s market.Sighting, receipt market.Receipt, err error) {
	at, counted := r.began(start)
	if !counted {
		return
	}
	r.operation(receipt, err)
	if err == nil {
		r.count[browsed]++
		if s.Torn {
			r.count[torn]++
		}
		r.hand(sample{wait: browseWait, start: at, took: int64(end.Sub(start))})
	}
}

// operation records what all operations have in common.
func (r *recorder) operation(receipt market.Receipt, err error) {
	r.count[polls] += int64(receipt.Polls)
	r.count[failedReleases] += int64(receipt.ReleasesFailed)
	if receipt.LeaseLost {
		r.count[leasesLost]++
	}
	if err == nil {
		return
	}
	if reason := market.Reason(err); reason != "" {
		r.refused[reason]++
	} else {
		r.count[unknown]++
	}
}

// hand hands a sample to the collector. Where the collector did not keep up, the worker waits for it.
func (r *recorder) hand(s sample) {
	for !r.samples.put(s) {
		r.blocked++
		r.collector.makeRoom(r.samples)
	}
	if r.samples.halfFull() {
		r.collector.tryMakeRoom(r.samples)
	}
}

// Row is what the workers recorded in so much time. It is not audited.
func (ws *Workers) Row(status result.Status, loaded time.Duration) result.Row {
	r := result.Row{
		Strategy: ws.Subject.String(), Sellers: ws.Mix.Sellers, Buyers: ws.Mix.Buyers, Browsers: ws.Browsers,
		Workload: ws.Workload, Trial: max(ws.Trial, 1), Status: status, Seconds: max(0, loaded.Seconds()),
		Refused: map[string]int64{}, Warnings: []string{}, PerBuyer: []int64{}, Audit: noAudit(),
	}
	n, broke := ws.sums(r.Refused)
	took, tries, clipped := ws.collector.totals()
	r.Listed, r.Bought, r.Unknown = n[listed], n[bought], n[unknown]
	r.Retries, r.ListRetries = n[retries], n[listRetries]
	r.Polls, r.LeasesLost, r.FailedReleases = n[polls], n[leasesLost], &n[failedReleases]
	r.BuyerPolls, r.SellerPolls = &n[orderPolls], &n[listPolls]
	r.Browsed, r.TornReads = n[browsed], n[torn]
	for _, w := range ws.buyers {
		r.PerBuyer = append(r.PerBuyer, w.recorder.count[bought])
	}
	r.Gone = r.Refused[market.Reason(market.ErrNotListed)]
	r.Contended = r.Refused[market.Reason(market.ErrContended)]
	if r.Seconds > 0 {
		r.PurchasesPerSecond = float64(r.Bought) / r.Seconds
	}
	ws.addTraffic(&r)
	summarize(&r, took, tries)
	if ws.Rate != 0 {
		r.Open = &result.Open{Asked: ws.Rate, Arrivals: string(ws.Arrivals), ServiceMS: latency(took[serviceWait])}
	}
	warn(&r, broke, clipped)
	return r
}

// summarize adds to a row what its distributions say, but for an open loop's.
func summarize(r *result.Row, took [waits]*hdrhistogram.Histogram, tries *hdrhistogram.Histogram) {
	r.WaitMS, r.ListMS, r.GivenUpMS = latency(took[purchaseWait]), latency(took[listWait]), latency(took[givenUpWait])
	r.LockWaitMS, r.BrowseMS = latency(took[lockWait]), latency(took[browseWait])
	r.Tries = distribution(tries)
	r.Histograms = result.Histograms{Purchase: encode(took[purchaseWait]), List: encode(took[listWait])}
}

// addTraffic adds what a purchase cost on the connections, that of the orders in vain included. On a connection that
// workers share nobody can tell.
func (ws *Workers) addTraffic(r *result.Row) {
	if r.Bought == 0 || ws.sharing() {
		return
	}
	var all traffic
	for _, w := range ws.buyers {
		all.market = all.market.Add(w.recorder.traffic.market)
		all.lockServers = all.lockServers.Add(w.recorder.traffic.lockServers)
	}
	of := shared(all.market, float64(r.Bought))
	r.RoundTripsPerPurchase, r.CommandsPerPurchase, r.BytesPerPurchase = of.RoundTrips, of.Commands, &of.Bytes
	if all.lockServers != (backend.Counts{}) { // or the lock has no servers of its own
		r.LockServersPerPurchase = shared(all.lockServers, float64(r.Bought))
	}
}

// shared is traffic divided by so many purchases or seconds.
func shared(c backend.Counts, by float64) *result.Traffic {
	return &result.Traffic{
		RoundTrips: float64(c.RoundTrips) / by, Commands: float64(c.Commands) / by,
		Bytes: float64(c.BytesSent+c.BytesReceived) / by,
	}
}

// sums joins what the workers counted, and adds what was refused. broke is how many of them ran out of coins.
func (ws *Workers) sums(refused map[string]int64) (n [counters]int64, broke int) {
	for _, w := range ws.All() {
		for c, more := range w.recorder.count {
			n[c] += more
		}
		for reason, more := range w.recorder.refused {
			refused[reason] += more
		}
		if w.recorder.broke {
			broke++
		}
	}
	return n, broke
}

// warn notes what a reader of the row must know.
func warn(r *result.Row, broke int, clipped int64) {
	if broke == r.Buyers && r.Seconds == 0 {
		r.Warnings = append(r.Warnings,
			"every buyer ran out of coins during the warm-up: nothing was measured; give more funds or no warm-up")
	} else if broke == r.Buyers {
		r.Warnings = append(r.Warnings, fmt.Sprintf("every buyer ran out of coins: the row ended after %.1f s", r.Seconds))
	} else if broke > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d buyers ran out of coins", broke, r.Buyers))
	}
	if clipped > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d waits above 60 s are recorded as 60 s", clipped))
	}
}

// latency summarizes a histogram of microseconds in milliseconds.
func latency(h *hdrhistogram.Histogram) result.Latency {
	n := h.TotalCount()
	if n == 0 {
		return result.Latency{}
	}
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return result.Latency{
		Mean:  h.Mean() / 1000,
		P50:   ms(nearestRank(h, 500)),
		P90:   ms(nearestRank(h, 900)),
		P99:   ms(nearestRank(h, 990)),
		P999:  ms(nearestRank(h, 999)),
		Max:   ms(h.Max()),
		Count: &n,
	}
}

// distribution summarizes a histogram of tries; nil: nothing was bought.
func distribution(h *hdrhistogram.Histogram) *result.Tries {
	if h.TotalCount() == 0 {
		return nil
	}
	return &result.Tries{Mean: h.Mean(), P50: nearestRank(h, 500), P99: nearestRank(h, 990), Max: h.Max()}
}

// encode returns a histogram in V2 compressed form, in base64 as the library encodes it.
func encode(h *hdrhistogram.Histogram) string {
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil { // cannot happen: the histogram is in memory and well formed
		return ""
	}
	return string(text)
}
