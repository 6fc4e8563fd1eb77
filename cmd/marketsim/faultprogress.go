package main

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"

	"github.com/marketsim/marketsim/bench/fault"
)

// faultProgress tells on stderr how far scenarios are: a line for each that was played with everybody and, on a
// terminal, a bar.
type faultProgress struct {
	w                   io.Writer
	scenarios, subjects int
	found               map[string]int // findings of a scenario
	done                int            // scenarios
	bar                 *progressbar.ProgressBar
}

func newFaultProgress(w io.Writer, terminal bool, scenarios, subjects int) *faultProgress {
	p := &faultProgress{w: w, scenarios: scenarios, subjects: subjects, found: map[string]int{}}
	if terminal {
		p.bar = progressbar.NewOptions(scenarios*subjects,
			progressbar.OptionSetWriter(w),
			progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""),
			progressbar.OptionShowCount(),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// told is called with each finding, one at a time.
func (p *faultProgress) told(f fault.Finding) {
	p.found[f.Scenario]++
	if p.bar != nil {
		p.bar.Describe(f.Scenario)
		_ = p.bar.Add(1)
	}
	if p.found[f.Scenario] < p.subjects {
		return
	}
	p.done++
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.w, "%d/%d %s\n", p.done, p.scenarios, f.Scenario)
}

// end removes the bar.
func (p *faultProgress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
