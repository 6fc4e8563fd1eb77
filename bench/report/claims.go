package report

import (
	"fmt"

	"github.com/marketsim/marketsim/bench/result"
)

// claimSection is the claims of the book, with how each was judged.
func claimSection(res *result.Run) section {
	const of = "book"
	t := &table{header: headings(6, "id", "claim", of, "measured", "holds if", "holds")}
	summary, widest := tally(res.Claims), max(len("measured"), len(of))
	var prose [][]cell
	for _, line := range wrap(summary, Width) {
		prose = append(prose, cells(line))
	}
	for _, c := range res.Claims {
		verdict := holds(c)
		if complete := len(res.Rounds()); c.Verdict == result.NotDecided && complete < res.Planned() {
			verdict.text += fmt.Sprintf(" (%d of %d rounds)", complete, res.Planned())
		}
		t.rows = append(t.rows, append(cells(fmt.Sprint(c.ID), clean(c.Text), clean(c.Published), clean(c.Measured),
			clean(c.Tolerance)), verdict))
		prose = append(prose, append(cells(fmt.Sprintf("%d. %s: ", c.ID, clean(c.Text))), verdict))
		for _, part := range []struct{ name, text string }{
			{of, c.Published}, {"measured", c.Measured}, {"holds if", c.Tolerance},
		} {
			label := part.name
			for _, line := range wrap(clean(part.text), Width-len("     ")-widest) {
				prose = append(prose, cells(fmt.Sprintf("   %-*s  %s", widest, label, line)))
				label = ""
			}
		}
	}
	return section{title: "Claims", lines: []string{summary}, table: t, prose: prose, meaning: claimsMeaning(res.Claims)}
}

// holds says how a claim was judged.
func holds(c result.Claim) cell {
	basis := ""
	if c.Verdict == result.OneTrial {
		basis = " (one trial)"
	}
	switch {
	case c.Holds != nil && *c.Holds:
		return cell{"yes" + basis, good}
	case c.Holds != nil:
		return cell{"NO" + basis, bad}
	case c.Verdict == result.NotDecided:
		return cell{text: "not decided"}
	}
	return cell{text: "not judged"}
}

// tally counts how the claims were judged: "Of 11 claims of the book: 6 hold, 1 does not, 1 not decided, 3 not
// judged." What nobody has is left out, but for those that hold and those that do not.
func tally(claims []result.Claim) string {
	var yes, no, undecided, unjudged int
	basis := ""
	for _, c := range claims {
		switch {
		case c.Holds != nil && *c.Holds:
			yes++
		case c.Holds != nil:
			no++
		case c.Verdict == result.NotDecided:
			undecided++
		default:
			unjudged++
		}
		if c.Verdict == result.OneTrial {
			basis = " In one trial, no interval."
		}
	}
	text := fmt.Sprintf("Of %s of the book: %d %s, %d %s", count(int64(len(claims)), "claim"),
		yes, agree(yes, "holds", "hold"), no, agree(no, "does not", "do not"))
	if undecided > 0 {
		text += fmt.Sprintf(", %d not decided", undecided)
	}
	if unjudged > 0 || undecided == 0 {
		text += fmt.Sprintf(", %d not judged", unjudged)
	}
	return text + ". The tolerances were set beforehand." + basis
}
