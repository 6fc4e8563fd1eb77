package history

import (
	"context"
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A Result is what became of a check or of a part of one.
type Result string

// The results.
const (
	Linearizable Result = "linearizable" // there is an order that explains what everybody saw
	Violated     Result = "violated"     // there is none
	Undecided    Result = "unknown"      // the check did not come to its end in time
)

// A Verdict is what a check found.
type Verdict struct {
	Result     Result   `json:"result"` // violated if a part is, else unknown if a part is
	Subject    string   `json:"subject"`
	Mix        string   `json:"mix"`
	Parts      []Part   `json:"parts"`
	NotChecked []string `json:"not_checked"`
}

// A Part is one of the questions that a check answers.
type Part struct {
	Name    string   `json:"name"`
	Result  Result   `json:"result"`
	Checked string   `json:"checked"` // what was looked at, in words
	Wrong   int      `json:"wrong"`   // how many violations there are
	Stories []Story  `json:"stories"` // the first of them
	Why     []string `json:"why"`     // what could not be decided
}

// A Story is a violation in words. That of an item or of an account's order can be drawn.
type Story struct {
	Text    string `json:"text"`
	finding *finding
}

// maxStories bounds how many violations of a part are told; all are counted.
const maxStories = 10

func newPart(name string) *Part {
	return &Part{Name: name, Result: Linearizable, Stories: []Story{}, Why: []string{}}
}

// tell counts a violation.
func (p *Part) tell(f *finding, format string, args ...any) {
	p.Result = Violated
	if p.Wrong++; len(p.Stories) < maxStories {
		p.Stories = append(p.Stories, Story{fmt.Sprintf(format, args...), f})
	}
}

// doubt notes what could not be decided.
func (p *Part) doubt(format string, args ...any) {
	if p.Result == Linearizable {
		p.Result = Undecided
	}
	if len(p.Why) < maxStories {
		p.Why = append(p.Why, fmt.Sprintf(format, args...))
	}
}

// Check judges a history. What is not decided when ctx ends is unknown.
func Check(ctx context.Context, h *History) Verdict {
	c := &checker{ctx: ctx, h: h}
	c.gather()
	v := Verdict{Result: Linearizable, Subject: h.Subject, Mix: h.Mix, NotChecked: notChecked(h)}
	items := c.items()
	accounts, settled := c.accounts()
	for _, p := range []*Part{items, accounts, c.order(settled), c.locks()} {
		v.Parts = append(v.Parts, *p)
		if p.Result == Violated || p.Result == Undecided && v.Result == Linearizable {
			v.Result = p.Result
		}
	}
	return v
}

func notChecked(h *History) []string {
	not := []string{
		"that a purchase changes the item and both accounts at one instant: each is judged by itself",
		"what browsers saw",
	}
	if len(h.Holds) == 0 {
		not = append(not, "locks: none were recorded")
	}
	if n := count(h.Holds, func(x Hold) bool { return x.Noticed }); n > 0 {
		not = append(not, fmt.Sprintf("%d holds of a lock that was lost and whose holder was told: "+
			"until when it was held is not known", n))
	}
	return not
}

// checker is a check under way.
type checker struct {
	ctx   context.Context
	h     *History
	lives []*life // of the items with more to their life than to be minted
	still int     // the other items
}

func (c *checker) model(from state) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return from },
		Step: func(s, input, _ any) (bool, any) {
			if c.ctx.Err() != nil { // end soon; legal sees why
				return false, s
			}
			after, ok := input.(*step).act.apply(s)
			return ok, after
		},
		DescribeOperation: func(input, _ any) string { return input.(*step).words() },
		DescribeState:     func(s any) string { return fmt.Sprint(s) },
	}
}

func count[T any](all []T, is func(T) bool) (n int) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}
