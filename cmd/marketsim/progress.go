package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/marketsim/marketsim/bench"
)

// progress tells on stderr how far a run is: a line a row and, on a terminal, a bar with the time left. It looks at
// the clock and not at the workers, so the measured path knows nothing of it.
type progress struct {
	w     io.Writer
	rows  int
	done  int
	total time.Duration // of all rows
	past  time.Duration // of the rows that are done
	bar   *progressbar.ProgressBar
}

func newProgress(w io.Writer, terminal bool, rows []bench.Config) *progress {
	p := &progress{w: w, rows: len(rows)}
	for _, c := range rows {
		p.total += c.Warmup + c.Duration
	}
	if terminal {
		p.bar = progressbar.NewOptions64(p.total.Milliseconds(),
			progressbar.OptionSetWriter(w),
			progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""),
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// row shows that a row is being measured, until the returned function is called.
func (p *progress) row(c bench.Config) (end func()) {
	if p.bar == nil {
		return func() {}
	}
	p.bar.Describe(fmt.Sprintf("%s %s (row %d of %d)", c.Subject, c.Mix, p.done+1, p.rows))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for start := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = p.bar.Set64((p.past + min(time.Since(start), c.Warmup+c.Duration)).Milliseconds())
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// finished prints a row that is done.
func (p *progress) finished(c bench.Config, r bench.Row) {
	p.done++
	p.past += c.Warmup + c.Duration
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.w, "%d/%d %s %s: %d bought and %d listed in %.1f s, %.0f purchases/s, %s\n",
		p.done, p.rows, r.Strategy, c.Mix, r.Bought, r.Listed, r.Seconds, r.PurchasesPerSecond, verdict(r))
}
