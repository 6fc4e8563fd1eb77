package history

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
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
	Stories []string `json:"stories"` // the first of them, in words
	Why     []string `json:"why"`     // what could not be decided
}

// The parts that judge the lock; the others judge the market.
const (
	LocksPart  = "locks"  // who held each
	TokensPart = "tokens" // whether fencing tokens grow
)

func worst(parts []Part) Answer {
	answer := Linearizable
	for _, p := range parts {
		if p.Answer == Violated || p.Answer == Undecided && answer == Linearizable {
			answer = p.Answer
		}
	}
	return answer
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
	market := filter(v.Parts, func(p Part) bool {
		return p.Name != LocksPart && p.Name != TokensPart
	})
	all := strings.ToUpper(string(worst(market)))
	lock := ""

	if n := v.Part(LocksPart).Wrong; n > 0 {
		lock += ", a lock HELD BY TWO " + english.Plural(n, "time", "")
	}
	if n := v.Part(TokensPart).Wrong; n > 0 {
		lock += ", fencing tokens DID NOT GROW " + english.Plural(n, "time", "")
	}

	if lock != "" {
		return "items and accounts " + all + lock
	}
	return all
}

// Write prints a verdict for people.
func (v CheckResult) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", v.Subject, v.Mix, v.Findings())
	for _, p := range v.Parts {
		fmt.Fprintf(&b, "  %-10s %-13s %s\n", p.Name, p.Answer, p.Checked)
		for _, s := range p.Stories {
			fmt.Fprintf(&b, "    %s\n", s)
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

const maxStories = 10 // bounds how many violations of a part are described; all are counted

func newPart(name string) *Part {
	return &Part{Name: name, Answer: Linearizable, Stories: []string{}, Why: []string{}}
}

func (p *Part) addViolation(format string, args ...any) {
	p.Answer = Violated
	p.Wrong++
	if len(p.Stories) < maxStories {
		p.Stories = append(p.Stories, fmt.Sprintf(format, args...))
	}
}

func (p *Part) addDoubt(format string, args ...any) {
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

	// In this order: where items lie settles which orders were applied, and both parts about coins
	// need that. accounts leaves out an overdraft that payments has described.
	items := c.items()
	c.settle()
	payments := c.payments()
	accounts := c.accounts()
	locks, tokens := c.locks()

	v := CheckResult{
		Subject: h.Subject,
		Mix:     h.Mix,
		Parts:   []Part{*items, *accounts, *payments, *locks, *tokens},
		NotChecked: []string{
			"that a purchase changes the item and both accounts at one instant: each is judged by itself",
		},
	}

	noticed := len(h.Holds) - len(filter(h.Holds, unnoticed))
	if noticed > 0 {
		note := fmt.Sprintf("%d holds of a lock that was lost and whose holder was told: "+
			"until when it was held is not known", noticed)
		v.NotChecked = append(v.NotChecked, note)
	}

	v.Answer = worst(v.Parts)
	return v
}

type checker struct {
	ctx    context.Context
	h      *History
	traces []*trace // of the items, in their order
	// Of orders of unknown outcome: those that were applied, and the accounts of
	// which that is not known. applied has pointers into h.Ops: a copy of an Op is never in it.
	applied   map[*Op]bool
	unsettled map[market.UserID]bool
	// The accounts that are known to have paid with coins that they did not have.
	overdrawn map[market.UserID]bool
}

func filter[T any](all []T, good func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool {
		return !good(one)
	})
}

// locks checks that no two held a lock at a time, and that fencing tokens grow. A worker
// surely holds from when acquiring has returned until it calls for the release, unless it
// has noticed that the lock was lost.
func (c *checker) locks() (held, tokens *Part) {
	held = newPart(LocksPart)
	tokens = newPart(TokensPart)

	byName := map[string][]LockHold{}
	for _, h := range c.h.Holds {
		byName[h.Name] = append(byName[h.Name], h)
	}

	// Sorted, so that one pass over the holds of a lock sees each overlap with the longest hold
	// before it: see overlaps.
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		holds := byName[name]
		slices.SortStableFunc(holds, func(a, b LockHold) int {
			return cmp.Or(cmp.Compare(a.Acquired, b.Acquired), cmp.Compare(a.Releasing, b.Releasing))
		})
		overlaps(held, holds)
		fences(tokens, holds)
	}

	held.Checked = fmt.Sprintf("%d locks, held %d times: who held each", len(byName), len(c.h.Holds))
	if len(byName) == 0 {
		held.Answer = NotChecked
		held.Checked = "no lock was recorded"
	}

	n := len(filter(c.h.Holds, fenced))
	tokens.Checked = fmt.Sprintf("%d holds with fencing tokens: that they grow", n)
	if n == 0 {
		tokens.Answer = NotChecked
		tokens.Checked = "no fencing token was recorded"
	}
	return held, tokens
}

func fenced(h LockHold) bool { return h.Fence != 0 }

// unnoticed reports whether a worker took the lock for its own until it called for the release.
func unnoticed(h LockHold) bool { return !h.Noticed }

// overlaps finds holds, sorted by acquisition and release, that overlap: each
// of these overlaps the longest one before it. Holds that meet in one instant
// may be in either order.
func overlaps(p *Part, holds []LockHold) {
	var longest LockHold
	for _, h := range filter(holds, unnoticed) {
		if h.Acquired < longest.Releasing {
			p.addViolation("lock %q: held by worker %d (%s-%s s), and by worker %d (%s-%s s): %s", h.Name,
				longest.Worker, seconds(longest.Acquired), seconds(longest.Releasing),
				h.Worker, seconds(h.Acquired), seconds(h.Releasing), verify.TwoHolders)
		}
		if h.Releasing > longest.Releasing {
			longest = h
		}
	}
}

// fences finds tokens that are not larger than the largest that was acquired
// before their hold was called for. The holds are sorted by acquisition. Of two holds of
// which neither was acquired before the other was called for, either may have the larger
// token.
func fences(p *Part, holds []LockHold) {
	holds = filter(holds, fenced)
	byCall := func(a, b LockHold) int { return cmp.Compare(a.Called, b.Called) }
	called := slices.SortedStableFunc(slices.Values(holds), byCall)

	var largest LockHold // of the holds that were acquired before h was called for; at first none
	for _, h := range called {
		for len(holds) > 0 && holds[0].Acquired < h.Called {
			if holds[0].Fence > largest.Fence {
				largest = holds[0]
			}
			holds = holds[1:]
		}
		if h.Fence <= largest.Fence && fenced(largest) {
			p.addViolation("lock %q: worker %d got fencing token %d (%s s), "+
				"and worker %d after it %d (%s s): %s",
				h.Name, largest.Worker, largest.Fence, seconds(largest.Acquired),
				h.Worker, h.Fence, seconds(h.Acquired), verify.FenceRepeats)
		}
	}
}
