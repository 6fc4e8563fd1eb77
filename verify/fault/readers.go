package fault

import (
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/verify"
)

// readerFaults are scenarios in which readers share a lock and one of them leaves, in time or late.
func readerFaults() []Scenario {
	shared := lockThat(func(s Scheme) bool { return s.Lock.Shares }, "it cannot be shared")
	return []Scenario{{
		Name: "reader-leaves", Title: "two readers share the lock; one leaves: is the other still protected from writers?",
		Promise: "shared", Applies: shared, run: readerLeaves,
	}, {
		Name:    "reader-late",
		Title:   "a reader pauses past its TTL, another enters, the first wakes and leaves: whose entry goes?",
		Promise: "owner-only release", Needs: "Unix signals", Applies: shared, run: readerLate,
	}}
}

func readerLeaves(s *setup) observed {
	first := besideReader(s, s.item(0), func(first, _ *client) *client { return first })
	last := besideReader(s, s.item(1), func(_, last *client) *client { return last })
	s.config.Tick = time.Hour // both come in the same millisecond
	same := besideReader(s, s.item(2), func(first, _ *client) *client { return first })
	how := "a writer enters beside the reader who stays"
	switch {
	case !first && same:
		how = "when the reader who came last leaves, a writer enters beside the other; " +
			"of two who came in the same millisecond, whoever leaves lets one in"
	case !last:
		how = "when the reader who came first leaves, a writer enters beside the other"
	case !first:
		how = "when the reader who came last leaves, a writer enters beside the other"
	}
	beside := first || last || same
	return s.sawBeside(beside, verify.NotAsked, how, "a writer waits for the last reader, whoever leaves first")
}

// besideReader lets two readers in and one leave, and reports whether a writer gets in while the other's lease lasts.
func besideReader(s *setup, item market.ItemID, leaver func(first, last *client) *client) bool {
	one, two, writer := s.client("A"), s.client("B"), s.client("C")
	start := time.Now()
	one.browseUntil(item, step.Acquired)
	s.wait(2 * time.Millisecond) // so that a lock that tells readers apart by their millisecond takes them for two
	two.browseUntil(item, step.Acquired)
	leaver(one, two).finish()
	s.strikes(true, "")
	return writer.comesBeside(item, start, one, two)
}

func readerLate(s *setup) observed {
	one, two, writer := s.client("A"), s.client("B"), s.client("C")
	one.browseUntil(s.item(0), step.Acquired)
	one.pause()
	s.wait(s.ttl + s.ttl/4)
	start := time.Now()
	two.browseUntil(s.item(0), step.Acquired)
	one.resume()
	one.finish()
	in := writer.comesBeside(s.item(0), start, two)
	return s.sawBeside(in, verify.NotAsked, "the late reader freed the other's entry: a writer enters beside it",
		"the late reader frees its own entry only")
}
