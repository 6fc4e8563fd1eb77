package explore

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// A walk goes through schedules, each of which is played once: first those with the fewest faults, then those with the
// fewest preemptions, and then in the order of what they choose among. One that has been played makes branches: each
// has the same choices up to one of its points, makes another one there, and then the first ones.
type walk struct {
	bounds  Bounds
	open    branches
	tallies map[cost]*tally
	points  map[string]*point // so that equal ones are kept once
}

// A cost is what a schedule is ordered by.
type cost struct{ faults, preemptions int }

func (c cost) with(next Choice) cost {
	if next.IsFault() {
		c.faults++
	}
	if next.Preempt {
		c.preemptions++
	}
	return c
}

func (c cost) within(bound cost) bool {
	return c.faults <= bound.faults && c.preemptions <= bound.preemptions
}

// after reports whether such schedules are played later.
func (c cost) after(other cost) bool {
	return c.faults > other.faults || c.faults == other.faults && c.preemptions > other.preemptions
}

// A tally counts the schedules of one cost.
type tally struct {
	schedules, harmful int
	chance             chance
}

// A point is what could be chosen, and what each client wants to send.
type point struct {
	options []Choice
	pending []string
}

// A node is a point of a schedule that was played.
type node struct {
	*point
	at   int  // what was chosen
	lost bool // a branch here was given up
}

// A branch is a schedule that has not been played.
type branch struct {
	nodes []node // those of the schedule that it leaves at the last of them
	last  int    // what it chooses there
	cost  cost
}

// at is what it chooses at one of its points.
func (b branch) at(depth int) int {
	if depth == len(b.nodes)-1 {
		return b.last
	}
	return b.nodes[depth].at
}

func newWalk(b Bounds) *walk {
	return &walk{bounds: b, open: branches{{}}, tallies: map[cost]*tally{}, points: map[string]*point{}}
}

// next takes the first of the branches that are due when schedules of some cost are. It reports false where none is.
func (w *walk) next(level cost) (b branch, is bool) {
	if len(w.open) == 0 || w.open[0].cost.after(level) {
		return b, false
	}
	return heap.Pop(&w.open).(branch), true
}

func (w *walk) of(c cost) *tally {
	if w.tallies[c] == nil {
		w.tallies[c] = &tally{}
	}
	return w.tallies[c]
}

func (w *walk) within(bound cost) (sum tally) {
	for c, t := range w.tallies {
		if c.within(bound) {
			sum.schedules, sum.harmful = sum.schedules+t.schedules, sum.harmful+t.harmful
			sum.chance.add(t.chance)
		}
	}
	return sum
}

// meets is a point as it is kept.
func (w *walk) meets(options []Choice, pending []string) *point {
	var key strings.Builder
	for _, c := range options {
		fmt.Fprint(&key, c, c.Preempt, c.Aside, " ")
	}
	fmt.Fprintf(&key, "%q", pending)
	is := key.String()
	if w.points[is] == nil {
		w.points[is] = &point{options, pending}
	}
	return w.points[is]
}

// played adds the branches of a schedule that was one itself, at each node that it did not have before it was played.
func (w *walk) played(b branch, nodes []node) {
	for depth := len(b.nodes); depth < len(nodes); depth++ {
		for at, c := range nodes[depth].options {
			next := b.cost.with(c)
			total := w.bounds.Total == 0 || next.faults+next.preemptions <= w.bounds.Total
			if at > 0 && total && next.within(cost{w.bounds.Faults, w.bounds.Preemptions}) {
				heap.Push(&w.open, branch{nodes[:depth+1], at, next})
			}
		}
	}
}

// branches are a heap: see walk.
type branches []branch

func (b branches) Len() int      { return len(b) }
func (b branches) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *branches) Push(one any) { *b = append(*b, one.(branch)) }

func (b branches) Less(i, j int) bool {
	one, other := b[i], b[j]
	if one.cost != other.cost {
		return other.cost.after(one.cost)
	}
	for depth := range min(len(one.nodes), len(other.nodes)) {
		if one.at(depth) != other.at(depth) {
			return one.at(depth) < other.at(depth)
		}
	}
	return len(one.nodes) < len(other.nodes)
}

func (b *branches) Pop() any {
	last := (*b)[len(*b)-1]
	*b = slices.Delete(*b, len(*b)-1, len(*b))
	return last
}
