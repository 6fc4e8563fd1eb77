package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
)

// merge is the row of several processes, from what each measured; nil is one that is lost. Counts, distributions and steps
// are added up, and what is said of them is computed from the sums as Workers.Row does. What was divided by purchases is
// multiplied before it is added. The row is not audited.
func merge(c Config, parts []*part) (result.Row, error) {
	r := result.Row{
		Strategy: c.Subject.String(), Sellers: c.whole().Sellers, Buyers: c.whole().Buyers, Workload: c.Workload,
		Browsers: c.party.size() * c.Browsers, Trial: max(c.Trial, 1), Status: result.Complete, Refused: map[string]int64{},
		Warnings: []string{}, PerBuyer: []int64{}, Audit: noAudit(), Joined: &result.Joined{Of: c.party.size()},
	}
	all := &merging{row: &r}
	for i, p := range parts {
		if p == nil {
			r.Joined.Lost = append(r.Joined.Lost, i+1)
			r.Warnings = append(r.Warnings, fmt.Sprintf("load machine %d is gone, and what it measured is missing; what it traded "+
				"is settled by where items lie", i+1))
			r.PerBuyer = append(r.PerBuyer, make([]int64, c.Mix.Buyers)...)
			r.Status = result.Incomplete
			continue
		}
		for _, w := range p.Row.Warnings {
			r.Warnings = append(r.Warnings, fmt.Sprintf("load machine %d: %s", i+1, w))
		}
		r.PerBuyer = append(r.PerBuyer, p.Row.PerBuyer...)
		all.parts = append(all.parts, p)
	}
	all.counts()
	if err := all.distributions(); err != nil {
		return r, err
	}
	all.perPurchase()
	all.perSecond()
	all.clients()
	r.Joined.StartErrorMS = all.startError()
	return r, all.course(c)
}

// merging is a row while it is made of parts.
type merging struct {
	row   *result.Row
	parts []*part
}

// worse is the worse of two statuses.
func worse(a, b result.Status) result.Status {
	for _, s := range []result.Status{result.Incomplete, result.Interrupted} {
		if a == s || b == s {
			return s
		}
	}
	return result.Complete
}

// counts adds up what the workers counted.
func (m *merging) counts() {
	r := m.row
	for _, p := range m.parts {
		of := &p.Row
		r.Status, r.Seconds = worse(r.Status, of.Status), max(r.Seconds, of.Seconds)
		r.Listed += of.Listed
		r.Bought += of.Bought
		r.Retries += of.Retries
		r.ListRetries += of.ListRetries
		r.Gone += of.Gone
		r.Contended += of.Contended
		r.Unknown += of.Unknown
		r.LeasesLost += of.LeasesLost
		r.Polls += of.Polls
		r.Browsed += of.Browsed
		r.TornReads += of.TornReads
		for reason, n := range of.Refused {
			r.Refused[reason] += n
		}
	}
	r.BuyerPolls = m.sum(func(of *result.Row) *int64 { return of.BuyerPolls })
	r.SellerPolls = m.sum(func(of *result.Row) *int64 { return of.SellerPolls })
	r.FailedReleases = m.sum(func(of *result.Row) *int64 { return of.FailedReleases })
}

func (m *merging) sum(of func(*result.Row) *int64) *int64 {
	var sum int64
	for _, p := range m.parts {
		if n := of(&p.Row); n != nil {
			sum += *n
		}
	}
	return &sum
}

// distributions adds up the histograms, and summarizes the sums.
func (m *merging) distributions() error {
	var took [waits]*hdrhistogram.Histogram
	tries := newHistogram()
	for w := range took {
		took[w] = newHistogram()
		for _, p := range m.parts {
			if err := addTo(took[w], p.Took[w]); err != nil {
				return err
			}
		}
	}
	for _, p := range m.parts {
		if err := addTo(tries, p.Tries); err != nil {
			return err
		}
	}
	summarize(m.row, took, tries)
	return nil
}

// each is the mean of something over all purchases; nil where a process that bought something does not know it.
func (m *merging) each(of func(*result.Row) *float64) *float64 {
	var sum float64
	for _, p := range m.parts {
		value := of(&p.Row)
		switch {
		case p.Row.Bought == 0:
		case value == nil:
			return nil
		default:
			sum += *value * float64(p.Row.Bought)
		}
	}
	if m.row.Bought == 0 {
		return nil
	}
	sum /= float64(m.row.Bought)
	return &sum
}

// bill is the mean of what connections carried for a purchase.
func (m *merging) bill(of func(*result.Cost) *result.Bill) *result.Bill {
	part := func(one func(*result.Bill) float64) float64 {
		mean := m.each(func(r *result.Row) *float64 {
			var value float64
			if r.Cost != nil && of(r.Cost) != nil {
				value = one(of(r.Cost))
			}
			return &value
		})
		return *mean
	}
	for _, p := range m.parts {
		if p.Row.Cost != nil && of(p.Row.Cost) != nil {
			return &result.Bill{
				RoundTrips:    part(func(b *result.Bill) float64 { return b.RoundTrips }),
				Commands:      part(func(b *result.Bill) float64 { return b.Commands }),
				BytesSent:     part(func(b *result.Bill) float64 { return b.BytesSent }),
				BytesReceived: part(func(b *result.Bill) float64 { return b.BytesReceived }),
			}
		}
	}
	return nil
}

// perPurchase adds what a purchase cost, and where its time went. The server's time was seen by each process as a whole: the
// mean of what they saw is divided among all purchases.
func (m *merging) perPurchase() {
	r := m.row
	if r.Bought == 0 {
		return
	}
	r.Cost = &result.Cost{
		LockServers: m.bill(func(c *result.Cost) *result.Bill { return c.LockServers }),
		Aborted:     m.bill(func(c *result.Cost) *result.Bill { return c.Aborted }),
		ClientUS:    m.each(func(r *result.Row) *float64 { return costOf(r).ClientUS }),
	}
	if market := m.bill(func(c *result.Cost) *result.Bill { return &c.Market }); market != nil {
		r.Cost.Market = *market
		r.RoundTripsPerPurchase, r.CommandsPerPurchase = market.RoundTrips, market.Commands
	}
	r.BytesPerPurchase = m.each(func(r *result.Row) *float64 { return r.BytesPerPurchase })
	if l := r.Cost.LockServers; l != nil {
		r.LockServersPerPurchase = &result.Traffic{
			RoundTrips: l.RoundTrips, Commands: l.Commands, Bytes: l.BytesSent + l.BytesReceived,
		}
	}
	seen := float64(len(m.parts))
	server := func(of func(*result.Row) *float64) *float64 {
		us := m.each(of)
		if us != nil {
			*us /= seen
		}
		return us
	}
	r.Cost.ServerUS = server(func(r *result.Row) *float64 { return costOf(r).ServerUS })
	r.Cost.ServerUserUS = server(func(r *result.Row) *float64 { return costOf(r).ServerUserUS })
	r.Cost.ServerSysUS = server(func(r *result.Row) *float64 { return costOf(r).ServerSysUS })
	for _, p := range m.parts {
		for name := range costOf(&p.Row).Commands {
			if r.Cost.Commands == nil {
				r.Cost.Commands = map[string]float64{}
			}
			r.Cost.Commands[name] = *server(func(r *result.Row) *float64 { us := costOf(r).Commands[name]; return &us })
		}
	}
	split := func(of func(*result.Split) float64) float64 {
		return *m.each(func(r *result.Row) *float64 {
			var ms float64
			if r.TimeMS != nil {
				ms = of(r.TimeMS)
			}
			return &ms
		})
	}
	r.TimeMS = &result.Split{
		LockWait: split(func(s *result.Split) float64 { return s.LockWait }),
		LockHold: split(func(s *result.Split) float64 { return s.LockHold }),
		Thrown:   split(func(s *result.Split) float64 { return s.Thrown }),
		Rest:     split(func(s *result.Split) float64 { return s.Rest }),
	}
}

// costOf is what a purchase of a row cost, or nothing that is known.
func costOf(r *result.Row) *result.Cost {
	if r.Cost == nil {
		return &result.Cost{}
	}
	return r.Cost
}

// perSecond adds up rates, and what else each process has of its own time.
func (m *merging) perSecond() {
	r := m.row
	if r.Seconds > 0 {
		r.PurchasesPerSecond = float64(r.Bought) / r.Seconds
	}
	settled := true
	for _, p := range m.parts {
		of := &p.Row
		if of.CommandsPerSecond != nil {
			r.CommandsPerSecond = plus(r.CommandsPerSecond, *of.CommandsPerSecond)
		}
		if b := of.BackgroundPerSecond; b != nil {
			if r.BackgroundPerSecond == nil {
				r.BackgroundPerSecond = &result.Traffic{}
			}
			r.BackgroundPerSecond.RoundTrips += b.RoundTrips
			r.BackgroundPerSecond.Commands += b.Commands
			r.BackgroundPerSecond.Bytes += b.Bytes
		}
		if of.Little != nil {
			if r.Little == nil {
				r.Little = &result.Little{}
			}
			r.Little.BusyBuyers += of.Little.BusyBuyers
			r.Little.ThroughputTimesTime += of.Little.ThroughputTimesTime
		}
		r.LongestSilenceMS = longer(r.LongestSilenceMS, of.LongestSilenceMS)
		r.WithoutServiceSeconds = longer(r.WithoutServiceSeconds, of.WithoutServiceSeconds)
		if of.Redirects != nil {
			r.Redirects = m.sum(func(of *result.Row) *int64 { return of.Redirects })
		}
		r.WarmupSeconds = longer(r.WarmupSeconds, of.WarmupSeconds)
		if of.Settled != nil {
			settled = settled && *of.Settled
			r.Settled = &settled
		}
	}
}

func plus(sum *float64, more float64) *float64 {
	if sum != nil {
		more += *sum
	}
	return &more
}

// longer is the larger of two numbers that may be absent.
func longer(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// clients says how the busiest process fared, and how evenly all buyers came to buy.
func (m *merging) clients() {
	r := m.row
	var gap float64
	for _, p := range m.parts {
		if f := p.Row.Fairness; f != nil {
			gap = max(gap, f.LongestGapSeconds)
		}
		of := p.Row.Client
		switch {
		case of == nil:
			continue
		case r.Client == nil:
			r.Client = &result.Client{}
		}
		r.Client.CPU, r.Client.GC = max(r.Client.CPU, of.CPU), max(r.Client.GC, of.GC)
		r.Client.SchedulerP99MS = max(r.Client.SchedulerP99MS, of.SchedulerP99MS)
		r.Client.Saturated = r.Client.Saturated || of.Saturated
		r.Client.RecorderWaits += of.RecorderWaits
	}
	r.Fairness = &result.Fairness{
		Jain: Jain(r.PerBuyer), Fewest: slices.Min(r.PerBuyer), Most: slices.Max(r.PerBuyer), LongestGapSeconds: gap,
	}
}

// startError is by how much at most two processes began apart, in milliseconds.
func (m *merging) startError() float64 {
	var within []time.Duration
	for _, p := range m.parts {
		within = append(within, p.Within)
	}
	slices.SortFunc(within, func(a, b time.Duration) int { return int(b - a) })
	var sum time.Duration
	for _, w := range within[:min(2, len(within))] {
		sum += w
	}
	return sum.Seconds() * 1000
}

// course adds how the row went over time.
func (m *merging) course(c Config) error {
	sum := newSeries(c.Duration)
	for _, p := range m.parts {
		if p.Series == nil {
			continue
		}
		if err := sum.addForm(p.Series); err != nil {
			return err
		}
	}
	for _, p := range m.parts {
		if p.Unsteady != "" {
			addUnsteady(m.row, p.Unsteady+", on one of the load machines")
			break
		}
	}
	took := time.Duration(m.row.Seconds * float64(time.Second))
	if m.row.Series = sum.result(took); m.row.Series != nil {
		addDrift(m.row)
	}
	return nil
}
