package bench

import (
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market/backend"
)

const (
	// silenceWatch is how often a row looks for answers of the market's server, and silent how long there must be none,
	// besides a delay of the row's own, for the report to say so.
	silenceWatch = 50 * time.Millisecond
	silent       = time.Second
)

// watch observes the workers from outside, from the end of the warm-up until the row stops. It reads counters that they
// keep for themselves.
func (m *measurement) watch() {
	if m.Purchases == 0 {
		defer time.AfterFunc(time.Until(m.from.Add(m.Duration)), func() { m.stop.set(result.Complete, nil) }).Stop()
		m.warmed = m.observe() // else nothing is left out, and was observed before the workers began
	}
	tick := time.NewTicker(silenceWatch)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			received, awaited := m.answers()
			m.silence.observe(time.Now(), received, awaited)
		case <-m.stop.done:
			m.stopped = m.observe()
			return
		}
	}
}

// observed is what the connections of all workers to the market have carried, and those in the background, and what the
// server and this process have used.
type observed struct {
	market, background backend.Counts
	usage              usage
	withoutStock       time.Duration // of an open loop
}

func (m *measurement) observe() (all observed) {
	for _, w := range m.All() {
		all.market = all.market.Add(w.traffic().market)
		all.background = all.background.Add(w.background.Snapshot())
	}
	for _, in := range m.markets {
		all.withoutStock = max(all.withoutStock, time.Duration(in.stock.without.Load()))
	}
	all.usage = m.used()
	return all
}

// answers is what has been received from the market's server, and whether somebody waits for more.
func (m *measurement) answers() (received int64, awaited bool) {
	for _, in := range m.markets {
		if c := in.shared.Load(); c != nil {
			received += c.Stats.Snapshot().BytesReceived
			awaited = awaited || c.Awaits()
		}
	}
	for _, w := range m.All() {
		received += w.carried.Snapshot().BytesReceived
		if c := w.conn.Load(); c != nil {
			awaited = awaited || c.Awaits()
		}
	}
	return received, awaited
}

// silence is the longest time in which a server that was asked answered nobody.
type silence struct {
	longest time.Duration
	at      time.Time // when that began

	since    time.Time // when the last answer was seen, or nobody waited for one
	seen     time.Time // when it was looked for last
	received int64
}

// observe notes how much the server has sent so far, and whether somebody waits for more. If this process did not look
// for a while, it may have stood still itself.
func (s *silence) observe(now time.Time, received int64, awaited bool) {
	late := now.Sub(s.seen) > silent/2
	s.seen = now
	if late || received != s.received || !awaited {
		s.since, s.received = now, received
		return
	}
	if lasted := now.Sub(s.since); lasted > s.longest {
		s.longest, s.at = lasted, s.since
	}
}
