package bench

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/market"
)

// row joins what the workers measured.
func (c *crew) row(cfg Config) Row {
	r := Row{
		Strategy: cfg.Subject.String(), Sellers: cfg.Mix.Sellers, Buyers: cfg.Mix.Buyers, Browsers: cfg.Browsers, Trial: max(cfg.Trial, 1),
		Status: c.brake.status, Seconds: max(0, c.brake.at.Sub(c.from).Seconds()),
		Refused: map[string]int64{}, Warnings: []string{}, PerBuyer: []int64{}, Audit: noAudit(),
	}
	purchases, listings, givenUp, lockWait := newHistogram(), newHistogram(), newHistogram(), newHistogram()
	sightings := newHistogram()
	var roundTrips, commands, clipped int64
	broke := 0
	for _, w := range c.all() {
		m := w.recorder
		r.Listed += m.listed
		r.Bought += m.bought
		r.Retries += m.retries
		r.ListRetries += m.listRetries
		r.Polls += m.polls
		r.Browsed += m.browsed
		r.TornReads += m.torn
		r.Unknown += m.unknown
		r.LeasesLost += m.leasesLost
		for reason, n := range m.refused {
			r.Refused[reason] += n
		}
		roundTrips += m.roundTrips
		commands += m.commands
		clipped += m.clipped
		if m.broke {
			broke++
		}
		merge(purchases, m.purchases)
		merge(listings, m.listings)
		merge(givenUp, m.givenUp)
		merge(lockWait, m.lockWait)
		merge(sightings, m.sightings)
	}
	for _, w := range c.buyers {
		r.PerBuyer = append(r.PerBuyer, w.recorder.bought)
	}
	r.Gone = r.Refused[market.Reason(market.ErrNotListed)]
	r.Contended = r.Refused[market.Reason(market.ErrContended)]
	if r.Seconds > 0 {
		r.PurchasesPerSecond = float64(r.Bought) / r.Seconds
	}
	if r.Bought > 0 {
		r.RoundTripsPerPurchase = float64(roundTrips) / float64(r.Bought)
		r.CommandsPerPurchase = float64(commands) / float64(r.Bought)
	}
	r.WaitMS, r.ListMS, r.GivenUpMS, r.LockWaitMS = latency(purchases), latency(listings), latency(givenUp), latency(lockWait)
	r.BrowseMS = latency(sightings)
	r.Histograms = Histograms{Purchase: encode(purchases), List: encode(listings)}
	r.warn(broke, clipped)
	if late := c.brake.late; late != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("an operation that was finished after the end of the row failed: %v", late))
	}
	return r
}

// warn notes what a reader of the row must know.
func (r *Row) warn(broke int, clipped int64) {
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

func merge(into, from *hdrhistogram.Histogram) {
	if from != nil {
		into.Merge(from)
	}
}

// latency summarizes a histogram of microseconds in milliseconds.
func latency(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return Latency{
		Mean: h.Mean() / 1000,
		P50:  ms(h.ValueAtQuantile(50)),
		P90:  ms(h.ValueAtQuantile(90)),
		P99:  ms(h.ValueAtQuantile(99)),
		P999: ms(h.ValueAtQuantile(99.9)),
		Max:  ms(h.Max()),
	}
}

// encode returns a histogram in V2 compressed form, in base64 as the library encodes it.
func encode(h *hdrhistogram.Histogram) string {
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil { // cannot happen: the histogram is in memory and well formed
		return ""
	}
	return string(text)
}
