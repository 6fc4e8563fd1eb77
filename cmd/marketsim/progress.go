package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

// isTerminal reports whether w is a terminal that can move its cursor, and not a file, a pipe or a dumb terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// progress shows on stderr how far a command is: a line for each part that is done and, on a terminal, a bar.
type progress struct {
	w           io.Writer
	parts, done int
	bar         *progressbar.ProgressBar // nil without a terminal
}

// newProgress shows the progress of so many parts. The bar, if there is one, is full at length.
func newProgress(w io.Writer, parts int, bar bool, length int64) progress {
	p := progress{w: w, parts: parts}
	if bar {
		p.bar = progressbar.NewOptions64(length,
			progressbar.OptionSetWriter(w),
			progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetElapsedTime(false), // the description says what the numbers mean
			progressbar.OptionSetPredictTime(false),
		)
	}
	return p
}

// part prints the line of a part that is done.
func (p *progress) part(format string, args ...any) {
	p.done++
	p.end()
	fmt.Fprintf(p.w, "%d/%d %s\n", p.done, p.parts, fmt.Sprintf(format, args...))
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// rowProgress is the progress of rows: a line for each or, where they are measured in rounds, a line for each round
// and on a terminal a table of what was measured so far. Its bar shows the time that is left; it reads the clock and
// never the workers, so that the measured path does no work for it.
type rowProgress struct {
	progress
	past, total time.Duration // of the rows that are done, and of all; at least
	began       time.Time
	rounds      int
	rows, size  int // that are done, and of a round
	table       int // lines of the table that stands
}

func newRowProgress(w io.Writer, bar bool, rows []bench.Config, rounds int) *rowProgress {
	var total time.Duration
	for _, c := range rows {
		total += c.Warmup + c.Duration
	}
	parts := len(rows)
	if rounds > 1 {
		parts = rounds
	}
	return &rowProgress{
		progress: newProgress(w, parts, bar, total.Milliseconds()), total: total, began: time.Now(),
		rounds: rounds, size: len(rows) / max(1, rounds),
	}
}

// row shows that a row is being measured, until the returned function is called.
func (p *rowProgress) row(c bench.Config) (end func()) {
	if p.bar == nil {
		return func() {}
	}
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
				past := p.past + min(time.Since(start), c.Warmup+c.Duration)
				p.bar.Describe(fmt.Sprintf("%s (row %d of %d), %s left", c.Name(), p.rows+1,
					p.size*max(1, p.rounds), p.left(past)))
				_ = p.bar.Set64(past.Milliseconds())
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// left is how long the rest takes: with what rows need besides their load, once that is known.
func (p *rowProgress) left(past time.Duration) string {
	left := p.total - past
	if p.rows > 0 {
		left = time.Duration(float64(time.Since(p.began)) * float64(left) / float64(past))
	}
	return left.Round(time.Second).String()
}

// finished shows a row that is done: the last of a result.
func (p *rowProgress) finished(c bench.Config, res *result.Run) {
	p.past += c.Warmup + c.Duration
	p.rows++
	r := res.Rows[len(res.Rows)-1]
	if p.rounds <= 1 {
		p.part("%s: %d bought and %d listed in %.1f s, %.0f purchases/s, %s",
			c.Name(), r.Bought, r.Listed, r.Seconds, r.PurchasesPerSecond, verdict(r))
		return
	}
	p.end()
	p.clear()
	if r.Problem() != "" {
		fmt.Fprintf(p.w, "%s in round %d: %s\n", r.Name(), r.Trial, verdict(r))
	}
	shown := p.bar != nil && p.soFar(res)
	if p.rows%p.size == 0 {
		p.done++
		if !shown {
			fmt.Fprintf(p.w, "%d/%d rounds of %s, about %s left\n", p.done, p.parts, english.Plural(p.size, "row", ""),
				p.left(p.past))
		}
	}
}

// soFar draws the table of what was measured so far, if it fits the terminal.
func (p *rowProgress) soFar(res *result.Run) bool {
	width, height, err := term.GetSize(int(p.w.(*os.File).Fd()))
	if err != nil || width < report.Width || height <= p.size {
		return false // without drawing the thousands of lines that a sweep may have
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "so far, after %d of %s:\n", p.rows/p.size, english.Plural(p.rounds, "round", ""))
	if err := report.SoFar(res).Write(&text, report.Text, report.Options{Color: true}); err != nil {
		return false
	}
	lines := bytes.Count(text.Bytes(), []byte("\n"))
	if height <= lines+1 { // the bar is below it
		return false
	}
	_, _ = p.w.Write(text.Bytes())
	p.table = lines
	return true
}

// clear removes the table so far: another takes its place, or the report.
func (p *rowProgress) clear() {
	if p.table > 0 {
		fmt.Fprintf(p.w, "\x1b[%dA\x1b[J", p.table)
		p.table = 0
	}
}

// verdict is what a row's audit found, and how the row ended if it is not complete.
func verdict(r result.Row) string {
	text := "audit ok"
	switch {
	case !r.Audit.Done:
		text = "not audited"
	case !r.Audit.OK:
		text = "AUDIT FAILED: " + wrong(r.Audit)
	}
	if r.Status != result.Complete {
		text += ", " + string(r.Status)
	}
	return text
}

// wrong is what an audit found wrong, in words.
func wrong(a result.Audit) string {
	items, accounts := int(a.ItemProblems), int(a.MoneyProblems)
	return english.Plural(items, "item", "") + " and " + english.Plural(accounts, "account", "") + " wrong"
}

// faultProgress is the progress of scenarios: one is done when it has run with every subject.
type faultProgress struct {
	progress
	subjects int
	findings int
	found    map[string]int // findings of a scenario
}

func newFaultProgress(w io.Writer, bar bool, scenarios, subjects int) *faultProgress {
	return &faultProgress{
		progress: newProgress(w, scenarios, bar, int64(scenarios*subjects)),
		subjects: subjects, found: map[string]int{},
	}
}

// finding is called with each finding, one at a time.
func (p *faultProgress) finding(f result.Finding) {
	p.found[f.Scenario]++
	if p.bar != nil {
		p.findings++
		p.bar.Describe(fmt.Sprintf("%s (finding %d of %d)", f.Scenario, p.findings, p.parts*p.subjects))
		_ = p.bar.Add(1)
	}
	if p.found[f.Scenario] == p.subjects {
		p.part("%s", f.Scenario)
	}
}
