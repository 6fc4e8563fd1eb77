package view

import (
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/marketsim/marketsim/bench/result"
)

// An intervalLine is an interval of a row, as a line of JSON. Its names are those of a stored
// row and of the CSV.
type intervalLine struct {
	Run string `json:"run,omitempty"` // of several
	result.Point
	Trial    int        `json:"trial"`
	Interval int        `json:"interval"`     // from 1
	At       *time.Time `json:"at,omitempty"` // its end; nil: not known
	Seconds  float64    `json:"seconds"`      // its length

	Purchases int64    `json:"purchases"` // that ended in it
	PerSecond float64  `json:"purchases_per_second"`
	P50MS     *float64 `json:"wait_ms_p50,omitempty"` // of these purchases; nil: there are none
	P99MS     *float64 `json:"wait_ms_p99,omitempty"`
}

// Intervals writes those of a row from the given one on, from 0, each as a line of JSON. A
// row that was stored without intervals has no line.
func Intervals(w io.Writer, run string, r result.Row, from int) error {
	lines := json.NewEncoder(w)
	for i := from; i < len(r.Course); i++ {
		begins := float64(i) * r.CourseSeconds
		length := math.Round(1e6*min(r.CourseSeconds, r.Seconds-begins)) / 1e6 // whole us: 0.1, and not 0.09999999999999998
		if length <= 0 {                                                       // of a file that was edited
			return nil
		}

		line := intervalLine{
			Run:       run,
			Point:     r.Point,
			Trial:     r.Trial,
			Interval:  i + 1,
			Seconds:   length,
			Purchases: r.Course[i],
			PerSecond: float64(r.Course[i]) / length,
		}
		if !r.Began.IsZero() {
			line.At = new(r.Began.Add(time.Duration((begins + length) * float64(time.Second))).Truncate(time.Millisecond))
		}
		if r.Course[i] > 0 && min(len(r.CourseP50MS), len(r.CourseP99MS)) > i {
			line.P50MS, line.P99MS = &r.CourseP50MS[i], &r.CourseP99MS[i]
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
