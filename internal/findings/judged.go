package findings

import "time"

// JudgedBounds say how far a program was to be judged.
type JudgedBounds struct {
	Preemptions int      `json:"preemptions"` // at most, in a schedule
	Faults      int      `json:"faults"`
	Of          []string `json:"of,omitempty"` // kinds of faults that were asked for; empty: all that the program hears
	WithinMS    int64    `json:"within_ms"`    // for all searches
	Pairs       int      `json:"pairs"`        // of clients, which played schedules at the same time
}

// A JudgedLease is how long the leases of a lock were, in milliseconds.
type JudgedLease struct {
	AskedMS    float64 `json:"asked_ms"` // LOCK_TTL_MS of the program
	ShortestMS float64 `json:"shortest_ms"`
	LongestMS  float64 `json:"longest_ms"`
	// How long a stopped holder kept a lock without a lease, of which no length was measured.
	KeptMS float64 `json:"kept_ms,omitempty"`
}

// AskedLease is the lease that the program of a search was asked to have; 0: it takes no lock.
func (e Exploration) AskedLease() time.Duration {
	if e.Lease == nil {
		return 0
	}
	return time.Duration(e.Lease.AskedMS) * time.Millisecond
}

// A MachineLoad is what a machine had to do.
type MachineLoad struct {
	Average float64 `json:"average"` // processes that wanted to run, over a minute
	Cores   int     `json:"cores"`
}
