package view_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/verify"
)

// longTexts are what a stored result may hold that somebody else made.
func longTexts() map[string]string {
	return map[string]string{
		"10 MB of one word": strings.Repeat("x", 10<<20),
		"10^6 words":        strings.Repeat("word ", 1e6),
	}
}

// withLong are results that have a long text in one place.
func withLong(long string) map[string]any {
	run := func(set func(*runs.Run)) any {
		r := compared()
		set(r)
		return r
	}

	found := func(set func(*findings.FaultTable)) any {
		f := faults()
		set(f)
		return f
	}

	explored := func(set func(*findings.Exploration)) any {
		diagram := schedule()
		e := findings.Exploration{
			Scheme: "set-px", Program: "one-item", ShortestHarm: findings.ShortestHarm{
				Harm: verify.SoldTwice, Shows: "item 1", Token: "x4", Diagram: &diagram,
			},
		}
		set(&e)
		other := findings.Exploration{Scheme: "watch", Program: "one-item"}
		other.Preemptions, other.Schedules = 1, 1
		return &findings.Explorations{Searches: []findings.Exploration{e, other}}
	}

	// Events[2] of schedule has a reply, Events[3] is a pause, and Events[4] a command.
	return map[string]any{
		"strategy": run(func(r *runs.Run) {
			r.Rows[0].Strategy = long
			r.Manifest.Config.Points[0].Strategy = long
		}),
		"processor": run(func(r *runs.Run) { r.Manifest.CPU = long }),
		"why":       found(func(f *findings.FaultTable) { f.Findings[0].Why = long }),
		"promise":   found(func(f *findings.FaultTable) { f.Findings[0].Broken = long }),
		"title":     found(func(f *findings.FaultTable) { f.Scenarios[0].Title = long }),
		"scheme": found(func(f *findings.FaultTable) {
			for i := range f.Findings {
				if f.Findings[i].Subject == f.Subjects[0] {
					f.Findings[i].Subject = long
				}
			}
			f.Subjects[0] = long
		}),
		"judged":  explored(func(e *findings.Exploration) { e.Scheme = long }),
		"shows":   explored(func(e *findings.Exploration) { e.Shows = long }),
		"token":   explored(func(e *findings.Exploration) { e.Token = long }),
		"client":  explored(func(e *findings.Exploration) { e.Diagram.Clients[0] = long }),
		"command": explored(func(e *findings.Exploration) { e.Diagram.Events[4].Does = long }),
		"happens": explored(func(e *findings.Exploration) { e.Diagram.Events[3].Does = "*is told: " + long }),
		"reply":   explored(func(e *findings.Exploration) { e.Diagram.Events[2].Reply = long }),
		"end":     explored(func(e *findings.Exploration) { e.Diagram.End[1] = long }),
	}
}

// Whatever the length of what a result holds: each way to draw it takes less than a
// second, and says how much it leaves out.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	for name, long := range longTexts() {
		for place, res := range withLong(long) {
			t.Run(place+", "+name, func(t *testing.T) {
				var d *view.Doc
				var figures []view.Figure
				testkit.Within(t, time.Second, "the document", func() {
					switch res := res.(type) {
					case *runs.Run:
						d, figures = view.Run(res), view.Figures(res)
					case *findings.FaultTable:
						d = view.Faults(res)
					case *findings.Explorations:
						d, figures = view.Explored(res), view.Schedules(res)
					}
				})

				drawn(t, "text", true, func(w io.Writer) error { return view.Text(w, d) })
				drawn(t, "terminal", true, func(w io.Writer) error { return view.Terminal(w, d, 60) })
				drawn(t, "Markdown", true, func(w io.Writer) error { return view.Markdown(w, d) })
				drawn(t, "HTML", true, func(w io.Writer) error { return view.HTML(w, d) })
				for _, f := range figures {
					drawn(t, "SVG", false, func(w io.Writer) error { return view.SVG(w, f) })
				}
			})
		}
	}
}

// drawn checks that something is drawn within a second, and is short. It says how many
// bytes are left out, unless whole words need not be shown.
func drawn(t *testing.T, what string, says bool, draw func(io.Writer) error) {
	t.Helper()
	var out bytes.Buffer
	testkit.Within(t, time.Second, what, func() {
		out.Reset()
		testkit.Succeeds(t, draw(&out))
	})

	said := strings.Join(strings.Fields(out.String()), " ")
	if says && !strings.Contains(said, "bytes left out)") {
		t.Errorf("%s does not say what it leaves out", what)
	}
	if out.Len() > 400_000 {
		t.Errorf("%s has %d bytes, which end in %q", what, out.Len(), said[max(0, len(said)-200):])
	}
}

// What other programs read is whole, and written as fast; so is a diagram in Markdown,
// which is shortened.
func TestLongTextsElsewhere(t *testing.T) {
	for name, long := range longTexts() {
		run := withLong(long)["strategy"].(*runs.Run)
		for what, write := range map[string]func(io.Writer) error{
			"CSV":     func(w io.Writer) error { return view.CSV(w, view.NamedRun{Run: run}) },
			"gobench": func(w io.Writer) error { return view.Gobench(w, run) },
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				testkit.Within(t, time.Second, what, func() { testkit.Succeeds(t, write(io.Discard)) })
			})
		}

		diagram := schedule()
		diagram.Clients[0], diagram.Events[4].Does, diagram.Events[2].Reply, diagram.End[0] = long, long, long, long
		drawn(t, "a diagram", true, func(w io.Writer) error {
			_, err := io.WriteString(w, diagram.String())
			return err
		})
	}
}
