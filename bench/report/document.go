package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/marketsim/marketsim/bench"
)

// section is a titled part of a report: lines, then a table, then notes. Any of them may be missing.
type section struct {
	title string
	lines []string
	table *table
	notes []string
}

// table is a table in words. Its first left columns are aligned to the left, and its last column too when lastLeft
// is set; the others hold numbers and are aligned to the right.
type table struct {
	header   []string // a newline may break a long name in two
	left     int
	lastLeft bool
	rows     [][]cell
}

// cell is one cell. Its text is clean.
type cell struct {
	text    string
	verdict verdict
}

// verdict is how a painter with colors marks a text.
type verdict int

const (
	plain verdict = iota
	good
	bad
)

// cells makes plain cells.
func cells(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, t := range texts {
		row[i] = cell{text: t}
	}
	return row
}

// head says what was measured where. What would make a reader distrust the numbers comes first.
func head(res *bench.Result) []string {
	m := res.Manifest
	var lines []string
	switch res.Status {
	case bench.Complete:
	case bench.Incomplete:
		lines = append(lines, "INCOMPLETE: the environment failed; this is what was measured until then.")
	case bench.Interrupted:
		lines = append(lines, "INTERRUPTED by the user: this is what was measured until then.")
	default:
		lines = append(lines, fmt.Sprintf("STATUS %q: not known to this marketsim.", clean(string(res.Status))))
	}
	if wrong := auditsFailed(res.Rows); wrong > 0 {
		lines = append(lines, fmt.Sprintf("AUDIT FAILED in %s of %s: items or money went wrong.",
			thousands(int64(wrong)), count(int64(len(res.Rows)), "row")))
	}
	if m.Backend == "embedded" {
		lines = append(lines, "EMBEDDED MINIREDIS: these are not Redis's numbers.")
	}
	return append(lines,
		fmt.Sprintf("marketsim %s on %s %s (%s), %s", known(m.Version), known(m.Server), known(m.ServerVersion),
			known(m.Backend), joined(", ", clean(m.Go), clean(m.OS), clean(m.Kernel))),
		fmt.Sprintf("%s, %s; %s s a row after %s s of warm-up; seed %d%s%s", known(m.CPU), count(int64(m.CPUs), "CPU"),
			seconds(m.Config.DurationSeconds), seconds(m.Config.WarmupSeconds), m.Seed, wallets(m.Config.Wallets),
			started(m.Started)))
}

func auditsFailed(rows []bench.Row) int {
	n := 0
	for _, r := range rows {
		if r.Audit.Done && !r.Audit.OK {
			n++
		}
	}
	return n
}

// wallets says so when buyers share accounts, because that changes what they contend for.
func wallets(n int) string {
	if n == 0 {
		return ""
	}
	return "; all buyers share " + count(int64(n), "account")
}

func started(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "; started " + t.UTC().Format("2006-01-02 15:04 UTC")
}

// known is a text of the manifest, or that it is not known.
func known(s string) string {
	if s = clean(s); s != "" {
		return s
	}
	return "unknown"
}

// joined joins what is not empty.
func joined(separator string, texts ...string) string {
	var have []string
	for _, t := range texts {
		if t != "" {
			have = append(have, t)
		}
	}
	return strings.Join(have, separator)
}

// holds says how a claim was judged.
func holds(c bench.Claim) cell {
	switch {
	case c.Holds == nil:
		return cell{text: "not judged"}
	case *c.Holds:
		return cell{"yes", good}
	}
	return cell{"NO", bad}
}

// tally sums the verdicts up: "6 hold, 1 does not, 1 not judged".
func tally(claims []bench.Claim) string {
	var yes, no, unjudged int
	for _, c := range claims {
		switch {
		case c.Holds == nil:
			unjudged++
		case *c.Holds:
			yes++
		default:
			no++
		}
	}
	return fmt.Sprintf("Of %s of the book: %d %s, %d %s, %d not judged. The tolerances were set beforehand.",
		count(int64(len(claims)), "claim"), yes, agree(yes, "holds", "hold"), no, agree(no, "does not", "do not"), unjudged)
}

// agree is the form of a verb that goes with n.
func agree(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}
