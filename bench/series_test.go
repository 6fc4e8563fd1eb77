package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSeriesOfARow: the series of a row adds up to the row, its operations of the warm-up left out.
func TestSeriesOfARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for duration, step := range map[time.Duration]time.Duration{
			2 * time.Second: 20 * time.Millisecond, 250 * time.Millisecond: shortestStep, time.Hour: 36 * time.Second,
		} {
			row := alone(t.Context(), Config{Warmup: time.Second, Duration: duration}, lasting(7*time.Millisecond))
			s := row.Series
			if sum(s.Purchases) != row.Bought || len(s.Purchases) != int(duration/step) || s.StepSeconds != step.Seconds() {
				t.Errorf("%d of %d purchases in %d steps of %v s", sum(s.Purchases), row.Bought, len(s.Purchases), s.StepSeconds)
			}
		}
	})
}
