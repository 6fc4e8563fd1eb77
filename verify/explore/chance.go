package explore

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
)

// tries is how often a schedule may miss the point that it has to come to, before its choice is given up.
const tries = 3

// number matches what may differ in a request that is sent again: a delay, a time, a number of somebody's choice.
var number = regexp.MustCompile(`[0-9]+`)

// sameButNumbers reports whether two requests differ in such numbers at most.
func sameButNumbers(a, b string) bool {
	return a == b || number.ReplaceAllLiteralString(a, "0") == number.ReplaceAllLiteralString(b, "0")
}

// A chance counts at which points of schedules a choice was given up, because clients did something else there than
// before: they draw delays that nobody can seed, go through maps, or have goroutines side by side.
type chance struct {
	points, lost []int  // at each depth
	example      string // how a schedule differed from another one, at the last that was given up
}

// met counts a new point.
func (c *chance) met(depth int) {
	for len(c.points) <= depth {
		c.points, c.lost = append(c.points, 0), append(c.lost, 0)
	}
	c.points[depth]++
}

// add counts what another one has counted.
func (c *chance) add(other chance) {
	for depth, n := range other.points {
		c.met(depth)
		c.points[depth] += n - 1
		c.lost[depth] += other.lost[depth]
	}
	c.example = cmp.Or(c.example, other.example)
}

// lose gives up a branch. An error says that this happens so often that it is no chance.
func (w *walk) lose(b branch, differs string) error {
	depth := len(b.nodes) - 1
	c := &w.of(b.cost).chance
	c.example = fmt.Sprintf("at step %d of %d: %s", depth+1, len(b.nodes), differs)
	if last := &b.nodes[depth]; !last.lost {
		last.lost = true
		c.met(depth)
		c.points[depth]--
		c.lost[depth]++
	}
	sum := w.within(b.cost)
	if points, lost := sum.chance.sum(); lost > 100 && 2*lost > points {
		return sum.chance.tooMany(lost, points)
	}
	return nil
}

// sum is how many points there were, and how many were lost.
func (c *chance) sum() (points, lost int) {
	for depth, n := range c.points {
		points, lost = points+n, lost+c.lost[depth]
	}
	return points, lost
}

// enough returns an error where a choice was lost at more than a tenth of the points at one depth: what would have come
// after each is most of what there is near the start, and little near the end.
func (c *chance) enough() error {
	for depth, n := range c.points {
		if 10*c.lost[depth] > n {
			return c.tooMany(c.lost[depth], n)
		}
	}
	return nil
}

// errChance is what tooMany returns.
var errChance = errors.New("the same choices do not lead to the same points, so that nothing can be concluded")

func (c *chance) tooMany(lost, of int) error {
	return fmt.Errorf("%w: that was so at %d of %d points, the last time %s; usually a client draws delays or numbers "+
		"from math/rand/v2, goes through a map, or sends from several goroutines at once", errChance, lost, of, c.example)
}
