package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// A state is that of an item or of an account. States are compared with ==.
type state any

// An action is what an operation does to a state, given the answer that its client got.
type action interface {
	fmt.Stringer
	// apply returns the state after it; false when its client cannot have got this answer in that state.
	apply(state) (after state, ok bool)
	// pending is the same before the client has its answer, so that it may happen or not. Nil for an action that changes
	// nothing.
	pending() action
}

// A step is an operation that is to be put in order.
type step struct {
	worker    int
	call, ret int64 // ret is never when the outcome is not known
	act       action
	op        *Op // nil for a mint and for the end
}

// words describe a step: what it did, and when.
func (s *step) words() string {
	if s.call >= atEnd {
		return s.act.String()
	}
	if s.ret == never {
		return fmt.Sprintf("%s (from %s on)", s.act, seconds(s.call))
	}
	return fmt.Sprintf("%s (%s-%s s)", s.act, trimmed(s.call), trimmed(s.ret))
}

func seconds(ns int64) string { return trimmed(ns) + " s" }
func trimmed(ns int64) string { return fmt.Sprintf("%.6f", float64(ns)/1e9) }

const (
	// atEnd is when the market's end is read: after all that returned.
	atEnd = never - 1
	// minPiece is how many steps a piece has at least, where a history is cut because nothing is under way.
	minPiece = 256
	// maxSegment bounds what is put in order in one piece. Porcupine's memory grows with its square.
	maxSegment = 8192
)

// A finding is a history without an order, with the state it starts from.
type finding struct {
	from  state
	steps []step
}

// inOrder looks for an order of steps that starts in a state. It cuts the steps where no operation is under way: what
// was applied until then is in the state, whatever its order was (end knows), so that the pieces can be judged one by
// one. Of a piece that is too large only the beginning is judged: violated or unknown.
func (c *checker) inOrder(from state, steps []step, end func(state, []step) state) (Answer, *finding) {
	slices.SortStableFunc(steps, byCall)
	for len(steps) > 0 {
		n := cut(steps)
		piece := steps[:n]
		if n > maxSegment {
			piece = prefix(byReturn(piece), maxSegment)
		}
		switch result := c.legal(from, piece); {
		case result == Violated:
			return Violated, c.shortest(from, piece)
		case result == Undecided || n > maxSegment:
			return Undecided, nil
		}
		if n < len(steps) {
			from = end(from, piece)
		}
		steps = steps[n:]
	}
	return Linearizable, nil
}

func byCall(a, b step) int { return cmp.Compare(a.call, b.call) }

// cut is how many steps, sorted by call, there are before a moment in which nothing is under way. A step that returns
// in the very instant in which the next is called overlaps it.
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

// legal asks porcupine whether steps have an order.
func (c *checker) legal(from state, steps []step) Answer {
	ok := porcupine.CheckOperations(c.model(from), operations(steps))
	switch {
	case c.ctx.Err() != nil:
		return Undecided
	case ok:
		return Linearizable
	}
	return Violated
}

func operations(steps []step) []porcupine.Operation {
	ops := make([]porcupine.Operation, len(steps))
	for i := range steps {
		s := &steps[i]
		ops[i] = porcupine.Operation{ClientId: s.worker, Input: s, Call: s.call, Return: s.ret}
	}
	return ops
}

// byReturn is a copy of steps in the order in which they returned.
func byReturn(steps []step) []step {
	return slices.SortedStableFunc(slices.Values(steps), func(a, b step) int { return cmp.Compare(a.ret, b.ret) })
}

// prefix is what was known when the first n of the steps, sorted by return, had returned: those that were under way
// then may have happened or not.
func prefix(steps []step, n int) []step {
	known := slices.Clone(steps[:n])
	for _, s := range steps[n:] {
		if s.call > steps[n-1].ret {
			continue
		}
		if s.ret != never {
			s.act, s.ret = s.act.pending(), never
		}
		if s.act != nil {
			known = append(known, s)
		}
	}
	return known
}

// shortest is the shortest beginning of steps, by the time of return, that has no order. Every longer one has none
// either. What changes nothing and is not needed for that is left out.
func (c *checker) shortest(from state, steps []step) *finding {
	all := byReturn(steps)
	low, high := 1, max(1, count(all, func(s step) bool { return s.ret != never })) // there is no order at high
	for low < high {
		middle := (low + high) / 2
		if c.legal(from, prefix(all, middle)) == Violated {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return &finding{from, c.needed(from, prefix(all, high))}
}

// maxLooks bounds how many steps are tried to be left out.
const maxLooks = 200

// needed leaves out steps that change nothing while there is no order without them either.
func (c *checker) needed(from state, steps []step) []step {
	for i, tried := 0, 0; i < len(steps) && tried < maxLooks; {
		if steps[i].act.pending() != nil {
			i++
			continue
		}
		tried++
		fewer := slices.Delete(slices.Clone(steps), i, i+1)
		if c.legal(from, fewer) == Violated {
			steps = fewer
		} else {
			i++
		}
	}
	return steps
}
