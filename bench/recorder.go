package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// The histograms cover 1 us to 60 s with 3 significant digits.
const (
	lowestWait  = int64(1)          // us
	highestWait = int64(60_000_000) // us
	digits      = 3
)

// recorder is what one worker measured. It allocates nothing once it is made.
type recorder struct {
	from time.Time // operations started earlier are warm-up

	listed, bought, listRetries, retries int64
	polls, unknown, leasesLost           int64
	browsed, torn                        int64
	roundTrips, commands                 int64 // of purchases, browsing excluded
	refused                              map[string]int64
	broke                                bool  // ended because its account was empty
	clipped                              int64 // values above highestWait

	purchases, listings, givenUp, lockWait, sightings *hdrhistogram.Histogram
}

func newSellerRecorder() *recorder {
	return &recorder{refused: map[string]int64{}, listings: newHistogram()}
}

func newBuyerRecorder() *recorder {
	return &recorder{
		refused: map[string]int64{}, purchases: newHistogram(), givenUp: newHistogram(), lockWait: newHistogram(),
	}
}

func newBrowserRecorder() *recorder {
	return &recorder{refused: map[string]int64{}, sightings: newHistogram()}
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowestWait, highestWait, digits) }

// list records a listing.
func (r *recorder) list(start, end time.Time, receipt market.Receipt, err error) {
	if start.Before(r.from) {
		return
	}
	r.listRetries += int64(receipt.Retries)
	r.operation(receipt, err)
	if err == nil {
		r.listed++
		r.record(r.listings, end.Sub(start))
	}
}

// purchase records an order.
func (r *recorder) purchase(start, end time.Time, traffic backend.Counts, receipt market.Receipt, err error) {
	if start.Before(r.from) {
		return
	}
	r.retries += int64(receipt.Retries)
	r.roundTrips += traffic.RoundTrips
	r.commands += traffic.Commands
	r.operation(receipt, err)
	switch {
	case err == nil:
		r.bought++
		r.record(r.purchases, end.Sub(start))
		r.record(r.lockWait, receipt.LockWait)
	case market.Refused(err):
		r.record(r.givenUp, end.Sub(start))
	}
}

// sight records what a browser saw.
func (r *recorder) sight(start, end time.Time, s market.Sighting, receipt market.Receipt, err error) {
	if start.Before(r.from) {
		return
	}
	r.operation(receipt, err)
	if err == nil {
		r.browsed++
		if s.Torn {
			r.torn++
		}
		r.record(r.sightings, end.Sub(start))
	}
}

// operation records what is alike for listings and orders.
func (r *recorder) operation(receipt market.Receipt, err error) {
	r.polls += int64(receipt.Polls)
	if receipt.LeaseLost {
		r.leasesLost++
	}
	if err == nil {
		return
	}
	if reason := market.Reason(err); reason != "" {
		r.refused[reason]++
	} else {
		r.unknown++
	}
}

func (r *recorder) record(h *hdrhistogram.Histogram, d time.Duration) {
	us := d.Microseconds()
	if us > highestWait {
		us = highestWait
		r.clipped++
	}
	_ = h.RecordValue(us) // cannot fail: the value is in range
}
