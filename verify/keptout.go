package verify

import "slices"

// KeptOut is how long others were kept out in a scenario while nobody worked under
// the lock, as it was measured.
type KeptOut string

// How long that may be. Where several clients tried, it is the longest.
const (
	NotAsked KeptOut = "not asked" // the scenario does not measure it
	// The scheme holds nothing, and nobody waited.
	NoLease KeptOut = "no lease"
	AtOnce  KeptOut = "at once" // nobody waited
	// The lease of the holder, or of a lock whose holder does not know that it has it.
	LeaseRanOut KeptOut = "until the lease ran out"
	// The counter that numbers a lock's holders had begun again: those who came were refused until
	// it had passed the last number that the market knew.
	CounterCaughtUp KeptOut = "until the counter caught up"
	GaveUp          KeptOut = "until a waiter gave up" // which held what others waited for
	// After it was paused, stuck or cut off for several leases.
	HolderBack KeptOut = "until the holder came back"
	OrdersFail KeptOut = "their orders fail" // at once, instead of waiting
	// An order gave up, and the next was kept out too.
	NeverIn KeptOut = "never while observed"

	// PassedOver is about a waiter that was first in line, while nobody held the lock.
	PassedOver KeptOut = "until the dead waiter was passed over"
)

// KeptOuts lists them, the longest last.
func KeptOuts() []KeptOut {
	return []KeptOut{
		NotAsked, NoLease, AtOnce, PassedOver, LeaseRanOut, CounterCaughtUp, GaveUp, HolderBack, OrdersFail, NeverIn,
	}
}

var fewWords = map[KeptOut]string{
	NotAsked: "", PassedOver: "dead waiter", LeaseRanOut: "lease", CounterCaughtUp: "counter", GaveUp: "time-out",
	HolderBack: "holder", OrdersFail: "orders fail", NeverIn: "never",
}

// String is how long that is, in the few words of a table's cell.
func (k KeptOut) String() string {
	if words, ok := fewWords[k]; ok {
		return words
	}
	return string(k)
}

// Measured reports whether a finding says for how many leases that was.
func (k KeptOut) Measured() bool { return k == PassedOver || k == LeaseRanOut || k == GaveUp }

// A Verdict sums a finding up: its harm, or without any, how long others were kept out.
type Verdict string

// The verdicts, besides those that are a Harm.
const (
	Stopped Verdict = "stopped" // the run ended before this was found
	// This machine, or the lock, lacks what the scenario needs.
	Unavailable Verdict = "not played"
	// It can happen, and nothing here can make it happen to this scheme.
	NotPlayable   Verdict = "not playable"
	NotApplicable Verdict = "not applicable" // the scenario cannot happen to this scheme
	Safe          Verdict = "safe"           // nothing was lost, and nobody was kept out
	StuckForTTL   Verdict = "stuck, its TTL" // nobody got in until a lease had run out
	// Nobody got in until something happened that no lease bounds.
	StuckUnbounded Verdict = "stuck, unbounded"
	Failing        Verdict = "orders fail" // nobody waits for the lock: orders fail at once
	// Nobody got in: an order gave up, and the next was kept out too.
	StuckForGood Verdict = "stuck for good"
)

// Verdicts lists them, the worst last.
func Verdicts() []Verdict {
	all := []Verdict{
		Stopped, Unavailable, NotPlayable, NotApplicable, Safe, StuckForTTL, StuckUnbounded, Failing, StuckForGood,
	}
	for _, h := range Harms()[1:] {
		all = append(all, Verdict(h))
	}
	return all
}

// VerdictOf sums up what was observed, and nothing else. Package findings refuses to read a
// stored finding whose verdict is another one, so that a change here makes it refuse older
// tables. A new KeptOut needs a case, or it counts as safe.
func VerdictOf(h Harm, k KeptOut) Verdict {
	switch {
	case h != NoHarm:
		return Verdict(h)
	case k == PassedOver || k == LeaseRanOut:
		return StuckForTTL
	case k == CounterCaughtUp || k == GaveUp || k == HolderBack:
		return StuckUnbounded
	case k == OrdersFail:
		return Failing
	case k == NeverIn:
		return StuckForGood
	}
	return Safe // after NotAsked, NoLease and AtOnce
}

// Harm reports whether coins or items were wrong, or could have been.
func (v Verdict) Harm() bool { return slices.Contains(Harms()[1:], Harm(v)) }
