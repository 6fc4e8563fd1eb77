package compare

import "github.com/marketsim/marketsim/internal/runs"

// Verdicts are what is known of a run, for other programs; nil: it neither compares nor has
// thresholds.
func Verdicts(run *runs.Run) *runs.Verdicts {
	// NaN is what is not known here, and no number in JSON: there the field is left out.
	var all runs.Verdicts
	for _, c := range Of(run) {
		all.Comparisons = append(all.Comparisons, runs.Comparison{
			At:       c.Place,
			Metric:   c.Metric.Name,
			A:        c.A,
			B:        c.B,
			Verdict:  string(c.Verdict),
			Reason:   c.Reason,
			Rounds:   c.Rounds,
			MedianA:  runs.Known(c.MedianA),
			MedianB:  runs.Known(c.MedianB),
			Ratio:    runs.Known(c.Ratio),
			Estimate: runs.Estimate{Low: runs.Known(c.Low), High: runs.Known(c.High), Confidence: c.Confidence},
		})
	}

	for _, c := range CheckThresholds(run) {
		all.Thresholds = append(all.Thresholds, runs.Check{
			Threshold: c.Threshold,
			At:        c.Place,
			Subject:   c.Strategy,
			Standing:  string(c.Standing),
			Reason:    c.Reason,
			Rounds:    c.Rounds,
			Measured:  runs.Known(c.Measured),
			Estimate:  runs.Estimate{Low: runs.Known(c.Low), High: runs.Known(c.High), Confidence: c.Confidence},
		})
	}

	if len(all.Comparisons)+len(all.Thresholds) == 0 {
		return nil
	}
	return &all
}
