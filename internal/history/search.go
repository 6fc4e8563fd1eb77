package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A state is that of an item, a location, or of an account, a balance. States are compared
// with ==.
type state any

// An action is what an operation does to a state, given the answer that its client got.
type action interface {
	fmt.Stringer
	// apply returns the state after it; false when its client cannot have got this answer
	// in that state.
	apply(state) (after state, ok bool)
}

// A reading is an action that changes nothing: its client was told something that
// is true of some states only.
type reading struct {
	text  string
	wrong string // what is wrong, when there was no such state
	holds func(state) bool
}

func (r reading) apply(s state) (state, bool) { return s, r.holds(s) }
func (r reading) String() string              { return r.text }

// A step is an operation that is to be put in order. One that may happen does so if it can,
// and has no effect otherwise: an order in which it comes after everything else is one in
// which it never happened.
type step struct {
	op        *Op   // nil for the end
	call, ret int64 // ns
	act       action
	may       bool
}

const (
	// The return of a step of unknown outcome: it may take effect at any time.
	never    = math.MaxInt64
	atEnd    = never - 1 // when the market's end is read: after all that returned
	minPiece = 256       // how many steps a piece has, at least: see cut
	// How many steps are put in order in one piece, at most: memory grows with the square.
	maxSegment = 8192
)

func (o *Op) step(act action) step {
	s := step{op: o, call: o.Start, ret: o.End, act: act}
	if o.Outcome == Unknown {
		s.ret = never
		s.may = true
	}
	return s
}

func (s step) reads() bool { _, ok := s.act.(reading); return ok }

func (s step) hasReturned() bool { return s.ret != never }

// judge looks for an order of the steps of an item or an account, which begins in a state, and
// adds to a part what it finds.
func (c *checker) judge(p *Part, name string, from state, steps []step) Answer {
	answer, before, wrong := c.inOrder(from, steps)
	switch answer {
	case Violated:
		p.addViolation("%s: %s: %s", name, strings.Join(describe(before, wrong), ", "), nameProblem(wrong))
	case Undecided:
		p.addDoubt("%s: too many operations at a time, or time ran out", name)
	}
	return answer
}

// inOrder looks for an order of steps, of which there are some, that starts in a state. It
// judges them piece by piece: between two pieces nothing is under way, and of a large one
// only the beginning is judged. If a piece has no order, it returns the fewest steps that
// have none, and the state before them. It sorts the steps that it is given.
func (c *checker) inOrder(from state, steps []step) (Answer, state, []step) {
	var after state // of a piece

	slices.SortStableFunc(steps, func(a, b step) int {
		return cmp.Compare(a.call, b.call)
	})
	for len(steps) > 0 {
		n := cut(steps)
		piece := slices.Clip(steps[:n]) // so that append below leaves steps[n] as it is
		switch {
		case n > maxSegment:
			piece = prefix(byReturn(piece), maxSegment)
		case n < len(steps):
			// A reading after all others notes the state then. That is the same in every order: only
			// the last piece has steps of unknown outcome, and this is not the last.
			noteAfter := reading{holds: func(s state) bool { after = s; return true }}
			piece = append(piece, step{call: steps[n].call, ret: steps[n].call, act: noteAfter})
		}

		switch answer := c.legal(from, piece); {
		case answer == Violated:
			return Violated, from, c.shortest(from, piece)
		case answer == Undecided || n > maxSegment: // nobody has judged the rest of a large piece
			return Undecided, nil, nil
		}

		from = after
		steps = steps[n:]
	}
	return Linearizable, nil, nil
}

// cut is how many steps, sorted by call, there are before a moment in which nothing is
// under way, and nothing returns.
func cut(steps []step) int {
	last := steps[0].ret
	for i, s := range steps {
		if i >= minPiece && s.call > last {
			return i
		}
		last = max(last, s.ret)
	}
	return len(steps)
}

// legal asks porcupine whether steps have an order. It is Undecided once ctx has ended.
func (c *checker) legal(from state, steps []step) Answer {
	model := porcupine.Model{
		Init: func() any { return from },
		Step: func(before, input, _ any) (bool, any) {
			if c.ctx.Err() != nil { // porcupine ends soon if every step is refused
				return false, before
			}
			one := input.(*step)
			after, ok := one.act.apply(before)
			if !ok {
				return one.may, before
			}
			return true, after
		},
	}

	ops := make([]porcupine.Operation, len(steps))
	for i := range steps {
		ops[i] = porcupine.Operation{Input: &steps[i], Call: steps[i].call, Return: steps[i].ret}
	}

	// When it returns Step runs no more, which a check with a time-out does not promise: in Step
	// the noteAfter of inOrder writes a variable that inOrder reads afterwards.
	ok := c.ctx.Err() == nil && porcupine.CheckOperations(model, ops)
	switch {
	case c.ctx.Err() != nil:
		return Undecided
	case ok:
		return Linearizable
	}
	return Violated
}

func byReturn(steps []step) []step {
	return slices.SortedStableFunc(slices.Values(steps), func(a, b step) int {
		return cmp.Compare(a.ret, b.ret)
	})
}

// prefix is what was known when the first n of the steps, sorted by return, had
// returned: those under way may happen. Once all that ever return have, a step that never
// returned, but is known to have happened, has to happen as before.
func prefix(steps []step, n int) []step {
	known := slices.Clone(steps[:n])
	allReturned := n == len(steps) || steps[n].ret == never // that ever do
	for _, s := range steps[n:] {
		if s.call > steps[n-1].ret || s.reads() {
			continue
		}
		s.may = s.may || !allReturned
		s.ret = never
		known = append(known, s)
	}
	return known
}

const maxLooks = 200 // bounds how many of the last steps it tries to leave out

// shortest is the shortest beginning of steps, by the time of return, that has no order.
// It leaves out steps that change nothing, if there is no order without them either. If time
// runs out meanwhile, it is longer than need be, and still has no order.
func (c *checker) shortest(from state, steps []step) []step {
	// sort.Search may be used: all steps together have no order, and if a beginning has none, no
	// longer one has.
	all := byReturn(steps)
	returned := len(filter(all, step.hasReturned))
	n := 1 + sort.Search(max(1, returned)-1, func(i int) bool {
		return c.legal(from, prefix(all, i+1)) == Violated
	})

	steps = prefix(all, n)

	first := max(0, len(steps)-maxLooks)
	for i := len(steps) - 1; i >= first; i-- {
		if !steps[i].reads() {
			continue
		}
		fewer := slices.Delete(slices.Clone(steps), i, i+1)
		if c.legal(from, fewer) == Violated {
			steps = fewer
		}
	}
	return steps
}

const maxDescribed = 12 // bounds how many operations a story describes: the last ones

// describe puts the operations into words, by the time of return, after the state in which
// they begin.
func describe(from state, steps []step) (lines []string) {
	if from != state(location{}) {
		lines = append(lines, fmt.Sprint(from))
	}

	last := byReturn(steps)
	if more := len(last) - maxDescribed; more > 0 {
		// Too many to tell all: what was still under way is left out.
		last = filter(last, step.hasReturned)
		more = max(0, len(last)-maxDescribed)
		lines = append(lines, fmt.Sprintf("after %d other operations", more))
		last = last[more:]
	}

	for _, s := range last {
		lines = append(lines, s.String())
	}
	return lines
}

// nameProblem names what is wrong: without what returned last there was an order.
func nameProblem(steps []step) string {
	// The last of them is what no order could take in; the others say what it had to follow.
	// It stays nil if none has returned: then all are orders on an account.
	var last action
	sold := map[location]int{}
	for _, s := range filter(byReturn(steps), step.hasReturned) {
		last = s.act
		if m, ok := last.(move); ok {
			sold[m.from]++
		}
	}

	m, moved := last.(move)
	read, wasRead := last.(reading)
	switch {
	case wasRead:
		return read.wrong
	case !moved:
		return "spent coins that it did not have"
	case m.from == location{}:
		return "minted twice"
	case !m.from.listed:
		return "listed by one who did not have it"
	case sold[m.from] > 1:
		return "sold twice"
	}
	return "sold without being listed at that price"
}

// String says what a step did, and when.
func (s step) String() string {
	switch {
	case s.op == nil:
		return s.act.String()
	case s.may:
		return fmt.Sprintf("%s, outcome not told (from %s s on)", s.act, seconds(s.call))
	case s.ret == never: // it was applied, as the market's end shows
		return fmt.Sprintf("%s (from %s s on)", s.act, seconds(s.call))
	}
	return fmt.Sprintf("%s (%s-%s s)", s.act, seconds(s.call), seconds(s.ret))
}

func seconds(ns int64) string { return fmt.Sprintf("%.6f", float64(ns)/1e9) }
