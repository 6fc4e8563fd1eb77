package bench

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// spent is what one buyer's time and its tries in vain amount to, those of the warm-up excluded. The buyer alone writes
// it, without an allocation.
type spent struct {
	aborted backend.Counts // with the market's server: orders that were refused, and tries that were thrown away

	// Of purchases that were applied.
	waited, lockWait, lockHold, thrown time.Duration

	browsing time.Duration // looking at listings
	listing  time.Duration // in a hot market
	idle     time.Duration // waiting because there were none
	from, to time.Time     // from the start of the first of all these, refused orders among them, to the end of the last

	firstBought, lastBought time.Time
	longestGap              time.Duration // between two purchases
}

// order notes an order: when its wait began, which is before its start where it was due in an open loop, what it
// exchanged with the market's server, and how much of that was in tries that were thrown away.
func (s *spent) order(asked, start, end time.Time, cost, thrown backend.Counts, receipt market.Receipt, err error) {
	s.busy(start, end)
	switch {
	case err == nil:
		s.aborted = s.aborted.Add(thrown)
		s.waited += end.Sub(asked)
		s.lockWait += receipt.LockWait
		s.lockHold += receipt.LockHold
		s.thrown += receipt.Thrown
		s.bought(end)
	case market.Refused(err):
		s.aborted = s.aborted.Add(cost)
	}
}

func (s *spent) bought(at time.Time) {
	if s.firstBought.IsZero() {
		s.firstBought = at
	} else {
		s.longestGap = max(s.longestGap, at.Sub(s.lastBought))
	}
	s.lastBought = at
}

// busy notes that the buyer did something.
func (s *spent) busy(start, end time.Time) {
	if s.from.IsZero() {
		s.from = start
	}
	s.to = end
}

func (s *spent) browsed(start, end time.Time) {
	s.busy(start, end)
	s.browsing += end.Sub(start)
}

func (s *spent) listed(start, end time.Time) {
	s.busy(start, end)
	s.listing += end.Sub(start)
}

func (s *spent) idled(start, end time.Time) {
	s.busy(start, end)
	s.idle += end.Sub(start)
}

// gap is the longest time without a purchase in a row that began and ended at these times.
func (s *spent) gap(from, to time.Time) time.Duration {
	if s.firstBought.IsZero() {
		return to.Sub(from)
	}
	return max(s.longestGap, s.firstBought.Sub(from), to.Sub(s.lastBought))
}

// total adds up what the buyers spent. Their times of day mean nothing in it.
func (ws *Workers) total() (all spent) {
	for _, w := range ws.buyers {
		s := &w.spent
		all.aborted = all.aborted.Add(s.aborted)
		all.waited += s.waited
		all.lockWait += s.lockWait
		all.lockHold += s.lockHold
		all.thrown += s.thrown
		all.browsing += s.browsing
		all.listing += s.listing
		all.idle += s.idle
	}
	return all
}

// account fills in what a purchase of the row cost, where its time went, and whom the number tells about.
func (m *measurement) account(r *result.Row) {
	all := m.total()
	servers := m.serversUse()
	client := m.stopped.usage.client.sub(m.warmed.usage.client)
	if r.Bought > 0 {
		r.Cost = m.cost(r, all.aborted)
		addCPU(r.Cost, together(servers), client, r.Bought)
		r.TimeMS = split(all, r.Bought)
	}
	r.Fairness = m.fairness(r.PerBuyer)
	m.little(r, all)
	m.judgeClient(r, servers, client)
	if r.Seconds > 0 {
		r.Nodes = m.perNode(servers, r.Seconds)
	}
}

// cost is what one of the row's purchases took, as far as it can be told.
func (m *measurement) cost(r *result.Row, aborted backend.Counts) *result.Cost {
	var all traffic
	for _, w := range m.buyers {
		all.market = all.market.Add(w.recorder.traffic.market)
		all.lockServers = all.lockServers.Add(w.recorder.traffic.lockServers)
	}
	c := &result.Cost{}
	if !m.sharing() {
		inVain := bill(aborted, r.Bought)
		c.Market, c.Aborted = bill(all.market, r.Bought), &inVain
	}
	if all.lockServers != (backend.Counts{}) {
		locks := bill(all.lockServers, r.Bought)
		c.LockServers = &locks
	}
	return c
}

// addCPU adds the CPU time of each purchase.
func addCPU(c *result.Cost, server serverUsage, client clientUse, purchases int64) {
	us := func(seconds float64) *float64 {
		each := seconds * 1e6 / float64(purchases)
		return &each
	}
	if client.cpu > 0 {
		c.ClientUS = us(client.cpu)
	}
	if !server.known {
		return
	}
	c.ServerUS, c.ServerUserUS, c.ServerSysUS = us(server.user+server.sys), us(server.user), us(server.sys)
	c.Commands = map[string]float64{}
	for name, total := range server.commands {
		c.Commands[name] = total / float64(purchases)
	}
}

// bill is what connections carried for one of so many purchases.
func bill(c backend.Counts, purchases int64) result.Bill {
	n := float64(purchases)
	return result.Bill{
		RoundTrips: float64(c.RoundTrips) / n, Commands: float64(c.Commands) / n,
		BytesSent: float64(c.BytesSent) / n, BytesReceived: float64(c.BytesReceived) / n,
	}
}

// split is where the mean time of a purchase went.
func split(all spent, purchases int64) *result.Split {
	mean := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(purchases) }
	return &result.Split{
		LockWait: mean(all.lockWait), LockHold: mean(all.lockHold), Thrown: mean(all.thrown),
		Rest: mean(all.waited - all.lockWait - all.lockHold - all.thrown),
	}
}

// fairness is how evenly the buyers came to buy.
func (m *measurement) fairness(perBuyer []int64) *result.Fairness {
	f := &result.Fairness{Jain: Jain(perBuyer), Fewest: slices.Min(perBuyer), Most: slices.Max(perBuyer)}
	for _, w := range m.buyers {
		f.LongestGapSeconds = max(f.LongestGapSeconds, w.spent.gap(m.from, m.stop.at).Seconds())
	}
	return f
}

// Jain is Jain's index of how evenly something was shared: 1 when all got the same, 1/n when one of n got everything.
// Where nothing was shared it was shared evenly.
//
// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
// Shared Computer Systems", DEC-TR-301, 1984.
func Jain(counts []int64) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	if sum == 0 {
		return 1
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// littleOff is how far the two sides of Little's law may be apart in a row before the row says so.
const littleOff = 0.05

// little compares the row's numbers with Little's law, by which purchases a second, times the mean time that one takes,
// are as many as there are busy buyers. The time is that of the row's distributions, and of all that a buyer does:
// purchases, orders that are refused, browsing, and listing again in a hot market. How long buyers were busy is observed apart from them. A time that no
// distribution holds, or that holds what was not spent, sets them apart.
func (m *measurement) little(r *result.Row, all spent) {
	// In an open loop an order also waits without a buyer.
	if m.open != nil || r.Seconds <= 0 || r.Bought == 0 || r.Unknown > 0 {
		return
	}
	var busy time.Duration
	for _, w := range m.buyers {
		busy += w.spent.to.Sub(w.spent.from) - w.spent.idle
	}
	perSecond := float64(r.Bought) / r.Seconds
	mean := (inAll(r.WaitMS) + inAll(r.GivenUpMS) + (all.browsing + all.listing).Seconds()) / float64(r.Bought)
	r.Little = &result.Little{BusyBuyers: busy.Seconds() / r.Seconds, ThroughputTimesTime: perSecond * mean}
	if off := r.Little.ThroughputTimesTime/r.Little.BusyBuyers - 1; math.Abs(off) > littleOff {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the recorded times are %+.0f%% off what buyers were busy for "+
			"(%.2f of them on average, by the times %.2f): times are missing, or too many", 100*off, r.Little.BusyBuyers,
			r.Little.ThroughputTimesTime))
	}
}

// inAll is the sum of a distribution, in seconds.
func inAll(l result.Latency) float64 {
	if l.Count == nil {
		return 0
	}
	return l.Mean / 1000 * float64(*l.Count)
}
