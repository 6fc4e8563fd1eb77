package bench

import (
	"context"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lookEvery is how often a warm-up looks at the market, and lookTimeout how long it waits for the answer.
	lookEvery   = 20 * time.Millisecond
	lookTimeout = time.Second
	// ahead is how far in the future the measured time begins when that is decided, so that each operation is judged by it.
	ahead = 10 * time.Millisecond
)

// warmUp returns when the measured time begins, or when the row is stopped before that. The end of a warm-up is known from
// the start unless it may be longer than its minimum: then it goes on until trade is steady.
func (m *measurement) warmUp(ctx context.Context) {
	w := warmup{buyers: m.Mix.Buyers}
	for m.pause(m.untilLook()) {
		until := time.Now().Add(lookTimeout)
		if m.decided() && m.from.Before(until) {
			until = m.from
		}
		w.look(time.Since(m.started), m.collector.bought(), m.onMarket(ctx, until))
		m.unsteady = w.unsteady()
		took := time.Since(m.started)
		if !m.decided() && took >= m.Warmup && (m.unsteady == "" || took >= m.WarmupMax) {
			m.begin(time.Now().Add(ahead))
		}
	}
	if m.stop.asked.Load() && (!m.decided() || m.from.After(m.stop.at)) {
		m.from = m.stop.at // nothing is measured
	}
}

// begin says when the warm-up ends.
func (m *measurement) begin(at time.Time) {
	m.from = at
	m.collector.begin(at)
}

// decided reports whether the end of the warm-up is known.
func (m *measurement) decided() bool { return !m.from.IsZero() }

// untilLook is how long a warm-up waits before it looks at the market; 0: it is over.
func (m *measurement) untilLook() time.Duration {
	if m.decided() {
		return max(0, min(lookEvery, time.Until(m.from)))
	}
	return lookEvery
}

// pause waits, and reports whether the warm-up goes on.
func (m *measurement) pause(d time.Duration) bool {
	if d == 0 {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-m.stop.done:
		return false
	}
}

// unreadable is a number of listings that could not be read: there is no server, or it did not answer in time. Of a hot
// market it is not read, because it is the same from the start but for what buyers have just bought. Purchases alone then
// say whether trade is steady.
const unreadable = -1

// onMarket is how many listings are on the markets. It does not wait for the answer longer than until.
func (m *measurement) onMarket(ctx context.Context, until time.Time) int64 {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var all int64
	for _, at := range m.nodes {
		if at.conn == nil || m.Hot > 0 {
			return unreadable
		}
		cmds, err := at.conn.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, in := range at.markets {
				p.ZCard(ctx, in.Keys.Market())
			}
			return nil
		})
		if err != nil {
			return unreadable // the workers meet the failure, too
		}
		for _, cmd := range cmds {
			all += cmd.(*redis.IntCmd).Val()
		}
	}
	return all
}

// warmup judges whether trade is steady, from what it was before. It compares the two halves of the second half of the
// time so far: whatever the beginning was like has no part in it once twice that time is over, and a change counts the
// more the longer it lasts. Trade is steady when both hold:
//
//   - Purchases/s differ by at most 10%, or by no more than chance would: the standard deviation of as many events that
//     come independently. There must be some to judge by.
//   - The listings are level, or so many that it does not matter how many. Sellers who are faster than buyers fill the
//     market for ever, so that it is never level; but once there are as many listings as all buyers look at when they
//     browse (64 each), few of them want the same one. Before that, hundreds of buyers queue for the first few listings:
//     purchases are rare then, and may be so evenly for seconds. The listings are level when their mean differs by at most
//     10%, or by at most 10% of what was bought meanwhile: that is so where buyers are faster than sellers, and take
//     each listing as it comes.
//
// Both must have held at every look in the last eighth of the time, or a moment's chance would do.
type warmup struct {
	buyers int
	looks  []look
	why    string        // what was not steady at the last look
	since  time.Duration // the first look since which all was steady, if it is
}

// look is what was seen at one time.
type look struct {
	at       time.Duration // since the start
	bought   int64         // since the start
	listings int64
	sum      int64 // of the listings, of all looks up to this one
}

const (
	levelWithin   = 0.10 // of the mean
	deviations    = 1
	fewestToJudge = 30 // purchases
)

func (w *warmup) look(at time.Duration, bought, listings int64) {
	sum := listings
	if n := len(w.looks); n > 0 {
		sum += w.looks[n-1].sum
	}
	w.looks = append(w.looks, look{at, bought, listings, sum})
	before := w.why
	if w.why = w.now(); before != "" || len(w.looks) == 1 {
		w.since = at
	}
}

// unsteady says what is not steady; empty: all is.
func (w *warmup) unsteady() string {
	if n := len(w.looks); n == 0 {
		return "it was too short to tell"
	} else if at := w.looks[n-1].at; w.why == "" && 8*w.since > 7*at {
		return "it had been steady for a moment only"
	}
	return w.why
}

// now is what is not steady at the last look.
func (w *warmup) now() string {
	half, quarter, end := w.after(1, 2), w.after(3, 4), len(w.looks)-1
	if half == quarter || quarter == end {
		return "it was too short to tell"
	}
	from, mid, to := w.looks[half], w.looks[quarter], w.looks[end]
	all := to.bought - from.bought
	if all < fewestToJudge {
		return fmt.Sprintf("only %d purchases were made in the second half of it", all)
	}
	if !w.stocked(half, quarter, end) {
		return fmt.Sprintf("there were %d listings halfway, and %d at its end", from.listings, to.listings)
	}
	late := float64((to.at - mid.at)) / float64(to.at-from.at) // the part of the time
	chance := deviations * math.Sqrt(float64(all)*late*(1-late))
	if change := math.Abs(float64(to.bought-mid.bought) - float64(all)*late); change > chance &&
		change > levelWithin*late*(1-late)*float64(all) {
		return fmt.Sprintf("purchases/s went from %.0f to %.0f in the second half of it", rate(from, mid), rate(mid, to))
	}
	return ""
}

// after is the first look after a part of the time.
func (w *warmup) after(part, parts time.Duration) int {
	end := w.looks[len(w.looks)-1].at
	return sort.Search(len(w.looks), func(i int) bool { return w.looks[i].at*parts >= end*part })
}

// stocked reports whether the listings are level, or so many that it does not matter how many.
func (w *warmup) stocked(half, quarter, end int) bool {
	from, mid, to := w.looks[half], w.looks[quarter], w.looks[end]
	if min(from.listings, mid.listings, to.listings) == unreadable {
		return true
	}
	early := float64(mid.sum-from.sum) / float64(quarter-half)
	late := float64(to.sum-mid.sum) / float64(end-quarter)
	change := math.Abs(late - early)
	return min(early, late) >= float64(browseSize*w.buyers) || change <= levelWithin*max(early, late) ||
		change <= levelWithin*float64(to.bought-from.bought)
}

// rate is how many purchases were made in a second between two looks.
func rate(from, to look) float64 { return float64(to.bought-from.bought) / (to.at - from.at).Seconds() }
