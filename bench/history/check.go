package history

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/anishathalye/porcupine"
	"github.com/dustin/go-humanize/english"
)

// An Answer is what became of a check or of a part of one.
type Answer string

// The answers.
const (
	Linearizable Answer = "linearizable" // there is an order that explains what everybody saw
	Violated     Answer = "violated"     // there is none
	Undecided    Answer = "unknown"      // the check did not come to its end in time
	NotChecked   Answer = "not checked"  // of a part of which nothing was recorded
)

// A CheckResult is what a check found.
type CheckResult struct {
	Answer     Answer   `json:"result"` // violated if a part is, else unknown if a part is
	Subject    string   `json:"subject"`
	Mix        string   `json:"mix"`
	Parts      []Part   `json:"parts"`
	NotChecked []string `json:"not_checked"`
}

// A Part is one of the questions that a check answers.
type Part struct {
	Name    string   `json:"name"`
	Answer  Answer   `json:"result"`
	Checked string   `json:"checked"` // what was checked, in words
	Wrong   int      `json:"wrong"`   // how many violations there are
	Stories []Story  `json:"stories"` // the first of them
	Why     []string `json:"why"`     // what could not be decided
}

// A Story is a violation in words. That of an item or of an account's order can be drawn.
type Story struct {
	Text    string `json:"text"`
	telling telling
	finding *finding // nil: there is nothing to draw
}

// The parts that judge the lock; the others judge the market.
const (
	LocksPart  = "locks"  // who held each
	TokensPart = "tokens" // whether fencing tokens grow
)

// Market is the worst answer of the parts that judge the market.
func (v CheckResult) Market() Answer {
	worst := Linearizable
	for _, p := range v.Parts {
		if p.Name == LocksPart || p.Name == TokensPart {
			continue
		}
		if p.Answer == Violated || p.Answer == Undecided && worst == Linearizable {
			worst = p.Answer
		}
	}
	return worst
}

// Part returns the part with a name; an empty one if there is none.
func (v CheckResult) Part(name string) Part {
	for _, p := range v.Parts {
		if p.Name == name {
			return p
		}
	}
	return Part{}
}

// Findings says in a few words what became of the market and, apart from that, of the lock.
func (v CheckResult) Findings() string {
	text := strings.ToUpper(string(v.Market()))
	if n := v.Part(LocksPart).Wrong; n > 0 {
		text += ", a lock HELD BY TWO " + english.Plural(n, "time", "")
	}
	if n := v.Part(TokensPart).Wrong; n > 0 {
		text += ", fencing tokens DID NOT GROW " + english.Plural(n, "time", "")
	}
	if text != strings.ToUpper(string(v.Market())) {
		text = "items and accounts " + text
	}
	return text
}

// maxStories bounds how many violations of a part are described; all are counted.
const maxStories = 10

func newPart(name string) *Part {
	return &Part{Name: name, Answer: Linearizable, Stories: []Story{}, Why: []string{}}
}

// tell counts a violation, and describes it if it is among the first.
func (p *Part) tell(format string, args ...any) { p.add(Story{Text: fmt.Sprintf(format, args...)}) }

// show is tell for a violation that can be drawn.
func (p *Part) show(f *finding, t telling) { p.add(Story{t.String(), t, f}) }

func (p *Part) add(s Story) {
	p.Answer = Violated
	if p.Wrong++; len(p.Stories) < maxStories {
		p.Stories = append(p.Stories, s)
	}
}

// doubt notes what could not be decided.
func (p *Part) doubt(format string, args ...any) {
	if p.Answer == Linearizable {
		p.Answer = Undecided
	}
	if len(p.Why) < maxStories {
		p.Why = append(p.Why, fmt.Sprintf(format, args...))
	}
}

// Check judges a history. What is not decided when ctx ends is unknown.
func Check(ctx context.Context, h *History) CheckResult {
	c := &checker{ctx: ctx, h: h}
	c.gather()
	v := CheckResult{Answer: Linearizable, Subject: h.Subject, Mix: h.Mix, NotChecked: notChecked(h)}
	items := c.items()
	accounts, settled := c.accounts()
	order := c.order(settled)
	locks, tokens := c.locks()
	for _, p := range []*Part{items, accounts, order, locks, tokens} {
		v.Parts = append(v.Parts, *p)
		if p.Answer == Violated || p.Answer == Undecided && v.Answer == Linearizable {
			v.Answer = p.Answer
		}
	}
	return v
}

func notChecked(h *History) []string {
	not := []string{
		"that a purchase changes the item and both accounts at one instant: each is judged by itself",
		"what browsers saw",
	}
	if n := count(h.Holds, func(x Hold) bool { return x.Noticed }); n > 0 {
		not = append(not, fmt.Sprintf("%d holds of a lock that was lost and whose holder was told: "+
			"until when it was held is not known", n))
	}
	return not
}

// A checker makes one check.
type checker struct {
	ctx    context.Context
	h      *History
	traces []*trace // of the items that were more than minted
	still  int      // the other items
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

// Write prints a verdict for people.
func (v CheckResult) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", v.Subject, v.Mix, v.Findings())
	for _, p := range v.Parts {
		fmt.Fprintf(&b, "  %-18s %-13s %s\n", p.Name, p.Answer, p.Checked)
		for _, s := range p.Stories {
			fmt.Fprintf(&b, "    %s\n", s.Text)
		}
		if more := p.Wrong - len(p.Stories); more > 0 {
			fmt.Fprintf(&b, "    and %d more\n", more)
		}
		for _, why := range p.Why {
			fmt.Fprintf(&b, "    not decided: %s\n", why)
		}
	}
	for _, not := range v.NotChecked {
		fmt.Fprintf(&b, "  not checked: %s\n", not)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
