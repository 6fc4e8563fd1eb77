package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// TestSectionsAreTheMarkdown: what another renderer reads of a document is what the Markdown says of it.
func TestSectionsAreTheMarkdown(t *testing.T) {
	for _, d := range []*Document{Run(complete()), Run(reproduced()), Run(violated()), Run(partial()), Run(embedded()),
		Faults(everyVerdict()), Faults(cutShort())} {
		markdown := drawn(t, d, Markdown, Options{})
		says := func(text string) {
			if !strings.Contains(markdown, escape(text)) {
				t.Errorf("the Markdown does not say %q", text)
			}
		}
		head := append(d.Warnings(), d.Head()...)
		if !slices.Equal(head, d.head) {
			t.Errorf("the head is %q, and read as %q", d.head, head)
		}
		rows := 0
		for _, s := range d.Sections() {
			says(s.Title)
			says(s.Meaning)
			for _, line := range append(s.Lines, s.Notes...) {
				says(line)
			}
			if s.Table == nil {
				continue
			}
			for _, h := range s.Table.Header {
				says(h.Text)
			}
			for _, row := range s.Table.Rows {
				rows++
				if len(row) != len(s.Table.Header) {
					t.Errorf("%s: %d cells below %d headings", s.Title, len(row), len(s.Table.Header))
				}
				for _, c := range row {
					says(c.Text)
				}
			}
		}
		if rows == 0 {
			t.Error("no section has a table")
		}
	}
}

// TestTones: what is colored in a text has a tone.
func TestTones(t *testing.T) {
	tones := map[Tone]int{}
	for _, s := range Run(violated()).Sections() {
		if s.Table == nil {
			continue
		}
		for _, row := range s.Table.Rows {
			for _, c := range row {
				tones[c.Tone]++
			}
		}
	}
	if tones[Bad] != 1 || tones[Good] != 1 || tones[Plain] == 0 {
		t.Errorf("tones: %v, want that of the bad audit and that of the good one", tones)
	}
}

// TestMatrixHoldsEveryFinding, with the code that the text shows, and nothing where there is none.
func TestMatrixHoldsEveryFinding(t *testing.T) {
	for _, res := range []*result.Faults{everyVerdict(), cutShort()} {
		text := drawn(t, Faults(res), Text, Options{})
		cells, explained := Matrix(res)
		found := 0
		for i, line := range cells {
			for j, c := range line {
				f := slices.IndexFunc(res.Findings, func(f result.Finding) bool {
					return f.Subject == res.Subjects[i] && f.Scenario == res.Scenarios[j].Name
				})
				if c == nil || f < 0 {
					if c != nil || f >= 0 {
						t.Errorf("%s in %s: %v, finding %d", res.Subjects[i], res.Scenarios[j].Name, c, f)
					}
					continue
				}
				found++
				if !strings.Contains(c.Why, res.Findings[f].Why) || c.Verdict != res.Findings[f].Verdict || c.Harm.Text == "" {
					t.Errorf("%+v is shown as %+v", res.Findings[f], c)
				}
				if !strings.Contains(text, c.Code) {
					t.Errorf("the text has no %q", c.Code)
				}
			}
		}
		if found != len(res.Findings) {
			t.Errorf("%d of %d findings are shown", found, len(res.Findings))
		}
		if want := fmt.Sprintf("%s = %s", codes[noHarm], noHarm); !strings.Contains(explained, want) {
			t.Errorf("%q does not explain %s", explained, want)
		}
	}
}
