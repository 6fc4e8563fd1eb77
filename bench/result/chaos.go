package result

// Chaos is what struck a row.
type Chaos struct {
	Seed       uint64           `json:"seed"`
	Rounds     int              `json:"rounds"`      // that ended in an audit
	Faults     map[string]int64 `json:"faults"`      // that struck, by kind
	Reopened   int64            `json:"reopened"`    // times that a worker connected again
	FreedLocks int64            `json:"freed_locks"` // keys of locks that nobody held, removed between two rounds

	// Pool is how many accounts sellers and buyers shared, and Funds what each opened with; 0: as the configuration says.
	Pool  int   `json:"pool,omitempty"`
	Funds int64 `json:"funds,omitempty"`

	// What the row has shown. It is absent in runs that were stored before it was recorded.
	Market          MarketState `json:"market,omitempty"`
	HeldByTwo       *int64      `json:"held_by_two,omitempty"`      // times that two held one lock, in the history
	TokensNotGrown  *int64      `json:"tokens_not_grown,omitempty"` // fencing tokens not larger than an earlier one
	LeasesLost      *int64      `json:"leases_lost,omitempty"`      // as their holders found out, before a write or after
	StaleRefused    *int64      `json:"stale_refused,omitempty"`    // writes of former holders that the market refused
	LeasesOutlasted *int64      `json:"leases_outlasted,omitempty"` // pauses of a holder that were longer than its lease
	// BlockedSeconds is for how long, until a lock was freed between two rounds, no operation at all was applied.
	BlockedSeconds *float64 `json:"blocked_seconds,omitempty"`
	NotTested      []string `json:"not_tested,omitempty"` // what could not fail, or was not struck, in words
	// Times are when faults struck and when there were none because the market was audited, the first MostTimes of them.
	Times []FaultTime `json:"times,omitempty"`
}

// A FaultTime is when one fault struck, on the clock of the row's Series.
type FaultTime struct {
	Kind  string  `json:"kind"` // as in Chaos.Faults, or Quiet
	Start float64 `json:"start_seconds"`
	End   float64 `json:"end_seconds"` // when it was healed
}

// Quiet is the kind of the time between two rounds: everything is healed, no worker trades, and the market is audited.
const Quiet = "quiet"

// MostTimes is how many times a row keeps, which are those of some hours.
const MostTimes = 20_000

// MarketState is what faults have made of a market's coins and items, as audits and the history show.
type MarketState string

// The states of a market.
const (
	MarketRight     MarketState = "right"
	MarketWrong     MarketState = "wrong"
	MarketUndecided MarketState = "undecided" // the history was not judged to its end
)

// Survived reports whether nothing went wrong with the market though everything struck that could have harmed it.
func (c Chaos) Survived() bool { return c.Market == MarketRight && len(c.NotTested) == 0 }

// Struck is how many faults there were.
func (c Chaos) Struck() (n int64) {
	for _, of := range c.Faults {
		n += of
	}
	return n
}
