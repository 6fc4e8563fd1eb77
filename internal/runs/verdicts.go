package runs

import "math"

// Verdicts are what follows from the rows of a run. They are written with it for other
// programs, and not stored: who reads a run concludes them again.
type Verdicts struct {
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Thresholds  []Check      `json:"thresholds,omitempty"`
}

// A Comparison is a metric of A over that of B in one place.
type Comparison struct {
	At      string `json:"at"`     // mix and load, as in the name of a row
	Metric  string `json:"metric"` // as in the CSV
	A       string `json:"a"`      // strategy and, of several, server
	B       string `json:"b"`
	Verdict string `json:"verdict"`          // faster, slower, higher, lower, no difference or not decided: of A
	Reason  string `json:"reason,omitempty"` // why it is not decided; without one: the interval is too wide
	Rounds  int    `json:"rounds"`           // that were compared
	MedianA Known  `json:"median_a,omitzero"`
	MedianB Known  `json:"median_b,omitzero"`
	Ratio   Known  `json:"ratio,omitzero"` // the median of those inside rounds
	Estimate
}

// A Check is a threshold of one subject in one place.
type Check struct {
	Threshold Threshold `json:"threshold"`
	At        string    `json:"at"`
	Subject   string    `json:"subject"`  // strategy and, of several, server
	Standing  string    `json:"standing"` // met, broken or not decided
	Reason    string    `json:"reason,omitempty"`
	Rounds    int       `json:"rounds"`            // that were judged
	Measured  Known     `json:"measured,omitzero"` // the median, or of a ratio to the first
	Estimate
}

// An Estimate is the interval of a median, and with how much confidence it holds it.
type Estimate struct {
	Low        Known   `json:"low,omitzero"`
	High       Known   `json:"high,omitzero"`
	Confidence float64 `json:"confidence"` // 0 to 1
}

// Known is a number that may not exist, and is left out then: JSON has no NaN.
type Known float64

// IsZero reports whether there is no such number, for omitzero.
func (k Known) IsZero() bool { return math.IsNaN(float64(k)) || math.IsInf(float64(k), 0) }
