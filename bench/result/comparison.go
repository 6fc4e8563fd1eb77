package result

import "math"

// A Comparison is what is known about the purchases/s of two rows, A and B, under the same mix.
type Comparison struct {
	A   string `json:"a"` // the strategies; the same one, where two runs are compared
	B   string `json:"b"`
	Mix string `json:"mix"` // with the workload where that is not the book's, as Row.Place: "5x5", "0x5 hot=1"

	Rounds     int      `json:"rounds"`       // how many stand behind it
	PerSecondA float64  `json:"a_per_second"` // median of the purchases/s
	PerSecondB float64  `json:"b_per_second"`
	Ratio      *float64 `json:"ratio"`      // of A's to B's; null: there is none
	Low        *float64 `json:"low"`        // its interval; null: the rounds are too few for one
	High       *float64 `json:"high"`       //
	Confidence float64  `json:"confidence"` // of the interval, 0 to 1
	Verdict    Compared `json:"verdict"`
	// Reason says why it is not decided ("4 of 9 rounds"); empty: the interval is too wide.
	Reason string `json:"reason,omitempty"`
	// MightDo is an estimate of how many rounds might decide it, from the spread of these; 0: it was not estimated.
	MightDo int `json:"rounds_that_might_do,omitempty"`
}

// Compared is what is known about the ratio of A to B, in a word.
type Compared string

// The verdicts on a comparison. An interval that lies inside the margin is NoDifference, even if it excludes 1: the
// margin is what the user said does not matter.
const (
	Faster       Compared = "faster"        // A: its interval lies above 1
	Slower       Compared = "slower"        // A: its interval lies below 1
	NoDifference Compared = "no difference" // the interval lies inside 1 +- the margin
	Undecided    Compared = "not decided"
)

// Reversed is what is known about the ratio of B to A.
func (c Compared) Reversed() Compared {
	switch c {
	case Faster:
		return Slower
	case Slower:
		return Faster
	}
	return c
}

// Reversed is the comparison of B with A. A ratio that has no inverse, as one of somebody else's file may be, is then null.
func (c Comparison) Reversed() Comparison {
	inverse := func(v *float64) *float64 {
		if v == nil || !(*v > 0) || math.IsInf(*v, 1) {
			return nil
		}
		i := 1 / *v
		return &i
	}
	c.A, c.B, c.PerSecondA, c.PerSecondB = c.B, c.A, c.PerSecondB, c.PerSecondA
	c.Ratio, c.Low, c.High = inverse(c.Ratio), inverse(c.High), inverse(c.Low)
	c.Verdict = c.Verdict.Reversed()
	return c
}
