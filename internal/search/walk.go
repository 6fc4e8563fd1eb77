package search

import (
	"cmp"
	"container/heap"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/verify"
)

// A walk goes through schedules, each of which is played once: first those with
// the fewest faults, then those with the fewest preemptions, and then in the
// order of their choices. A schedule that has been played makes branches: each
// has the same choices up to one of its points, another choice there, and after
// it the first choice at each point.
type walk struct {
	bounds  Bounds
	open    branches
	tallies map[cost]*tally
	points  map[string]*point // so that equal ones are kept once
	states  states
	bounded bool // a choice was left out because of the bound on preemptions, or on their sum with faults
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
	merged             int                 // of the schedules: came to a state of an earlier one
	byHarm             map[verify.Harm]int // how many schedules do each
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
	return &walk{
		bounds: b, open: branches{{}},
		tallies: map[cost]*tally{}, points: map[string]*point{},
		states: states{costs: map[string][]cost{}, twins: map[string]*twin{}},
	}
}

// isEmpty reports whether no schedule with this many faults is left.
func (w *walk) isEmpty(faults int) bool {
	return len(w.open) == 0 || w.open[0].cost.faults > faults
}

// next takes the first branch. It returns false if there is none, or if it comes
// after schedules of this cost.
func (w *walk) next(level cost) (b branch, is bool) {
	if len(w.open) == 0 || w.open[0].cost.after(level) {
		return b, false
	}
	return heap.Pop(&w.open).(branch), true
}

// tally is where the schedules of a cost are counted.
func (w *walk) tally(c cost) *tally {
	if w.tallies[c] == nil {
		w.tallies[c] = &tally{byHarm: map[verify.Harm]int{}}
	}
	return w.tallies[c]
}

// within sums up the schedules that cost at most this much.
func (w *walk) within(bound cost) (sum tally) {
	sum.byHarm = map[verify.Harm]int{}
	for c, t := range w.tallies {
		if c.within(bound) {
			sum.schedules += t.schedules
			sum.merged += t.merged
			sum.harmful += t.harmful
			for harm, n := range t.byHarm {
				sum.byHarm[harm] += n
			}
			sum.chance.add(t.chance)
		}
	}
	return sum
}

// pointOf returns the point that is kept for these options and requests.
func (w *walk) pointOf(options []Choice, pending []string) *point {
	var text strings.Builder
	for _, c := range options {
		fmt.Fprint(&text, c, c.Preempt, c.Aside, " ")
	}
	fmt.Fprintf(&text, "%q", pending)

	key := text.String()
	if w.points[key] == nil {
		w.points[key] = &point{options: options, pending: pending}
	}
	return w.points[key]
}

// played counts a schedule that was itself a branch, and adds its branches: those at its
// nodes after the last one of the branch.
func (w *walk) played(b branch, r *record) {
	nodes := r.path
	tally := w.tally(b.cost)
	tally.schedules++
	if r.joins != "" {
		tally.merged++
	}
	if len(r.harms) > 0 {
		tally.harmful++
	}
	for _, harm := range r.harms {
		tally.byHarm[harm]++
	}
	w.states.keep(r)

	// Up to where it branched off it went as an earlier schedule, which has added the branches
	// there. The first option of each node is the schedule itself. The branches share its nodes,
	// which newRun copies. Each costs what b does and its own last choice: those between are
	// first options, and a World's first option is neither a fault nor a preemption.
	for depth := len(b.nodes); depth < len(nodes); depth++ {
		for at, c := range nodes[depth].options {
			next := b.cost.with(c)
			switch {
			case at == 0:
			case w.allows(next):
				heap.Push(&w.open, branch{nodes: nodes[:depth+1], last: at, cost: next})
			case next.faults <= w.bounds.Faults:
				w.bounded = true
			}
		}
	}
}

// takeBack takes back what was noted of a branch's new points while it was played.
func (w *walk) takeBack(b branch, r *record) {
	w.states.forget(r, len(b.nodes), b.cost)
	for depth := len(b.nodes); depth < len(r.path); depth++ {
		w.tally(b.cost).chance.at(depth).points--
	}
}

// allows reports whether a schedule of this cost is within the last bounds.
func (w *walk) allows(c cost) bool {
	inTotal := w.bounds.Total == 0 || c.faults+c.preemptions <= w.bounds.Total
	return inTotal && c.within(cost{w.bounds.Faults, w.bounds.Preemptions})
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

// number matches what may differ in a request that is sent again: a delay, a time, a
// number that a client has drawn.
var number = regexp.MustCompile(`[0-9]+`)

// sameButNumbers reports whether two requests differ in such numbers at most.
func sameButNumbers(a, b string) bool {
	return a == b || number.ReplaceAllLiteralString(a, "0") == number.ReplaceAllLiteralString(b, "0")
}

// A chance counts at which points of schedules a choice was given up, because clients did
// something else there than before: they draw delays that nobody can seed, go through
// maps, or have goroutines side by side.
type chance struct {
	depths  []loss
	example string // how a schedule differed from another one, at one that was given up
}

// A loss counts points, and those at which a choice was lost.
type loss struct{ points, lost int }

func (l *loss) add(other loss) {
	l.points += other.points
	l.lost += other.lost
}

func (c *chance) at(depth int) *loss {
	c.depths = append(c.depths, make([]loss, max(0, depth+1-len(c.depths)))...)
	return &c.depths[depth]
}

func (c *chance) add(other chance) {
	for depth, n := range other.depths {
		c.at(depth).add(n)
	}
	c.example = cmp.Or(c.example, other.example)
}

// lose gives up a branch, which is not the first schedule: that has no point to miss. An error
// says that this happens so often that it is no chance: it ends a search at once, while
// tooOften, which is stricter, decides when a bound has been reached.
func (w *walk) lose(b branch, differs, hint string) error {
	depth := len(b.nodes) - 1
	c := &w.tally(b.cost).chance
	c.example = fmt.Sprintf("at step %d of %d, %s: %s",
		depth+1, len(b.nodes), b.nodes[depth].options[b.last], differs)

	// All branches at a node share it: a point counts once, however many are lost there.
	if last := &b.nodes[depth]; !last.lost {
		last.lost = true
		c.at(depth).lost++
	}

	sum := w.within(b.cost)
	if all := sum.chance.sum(); all.lost > 100 && 2*all.lost > all.points {
		return sum.chance.tooMany(all, hint)
	}
	return nil
}

func (c *chance) sum() (all loss) {
	for _, n := range c.depths {
		all.add(n)
	}
	return all
}

// tooOften returns an error if a choice was lost at more than a tenth of the points at one
// depth. It looks at each depth, because a choice that is lost near the start takes most
// schedules with it, and one near the end few.
func (c *chance) tooOften(hint string) error {
	for _, n := range c.depths {
		if 10*n.lost > n.points {
			return c.tooMany(n, hint)
		}
	}
	return nil
}

func (c *chance) tooMany(n loss, hint string) error {
	return fmt.Errorf("%w: that was so at %d of %d points, the last time %s; %s",
		ErrChance, n.lost, n.points, c.example, hint)
}
