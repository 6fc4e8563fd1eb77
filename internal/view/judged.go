package view

import (
	"slices"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/verify"
)

// What a program that was judged did to others, and what helps against it.
var remedies = map[verify.Harm]string{
	verify.TwoHolders: "take the lock and set its expiry by one command, SET key token NX PX ms, " +
		"and let no client's clock decide",
	verify.FreedAnothers: "release by a script that deletes the key only while it has the token of this acquisition",
	verify.NotTold:       "return what that script returns: 0 says that the lock had been lost",
	verify.Outlived:      "nothing in the lock does: have the store refuse writes with an older fencing token",
	verify.FenceRepeats:  "draw the token from a counter that never expires, in the script that takes the lock",
	verify.LockedOut: "set the expiry in the command that takes the lock; a renewal compares the token, and ends with " +
		"the lock, also when a call has failed",
	verify.NoLongerLocks: "after an error close the connection, and give back what the call had locked in the program",
	verify.ToldNo:        "say that the outcome is unknown where a reply was lost, or ask what became of the order",
	verify.ToldYes:       "say yes only after the reply that says so",
	verify.ChargedTwice:  "give each order a number, and record it in the transaction that makes it",
	verify.SoldTwice:     "read and write in one script, or under WATCH of all that is read",
	verify.Overdrawn:     "read and write in one script, or under WATCH of all that is read, the account included",
	verify.DoesNotEnd:    "bound how often and for how long it tries",
}

// judgedWords are what a reader of a judged lock has to know, a line each.
var judgedWords = []string{
	"Lease: how long a lock is held at most if nobody renews it. Whoever takes it after that is right to.",
	"Outlived its lease: a client was stopped for longer, and still works when the next one gets in.",
	"Kept: every schedule with one preemption, and every one with one fault of any kind, was played.",
}

// brokenFirst has the searches whose harm breaks a promise stand before the others.
func brokenFirst(all []findings.Exploration) []findings.Exploration {
	rank := func(e findings.Exploration) int {
		if e.Broken != "" {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b findings.Exploration) int { return rank(a) - rank(b) })
	return sorted
}
