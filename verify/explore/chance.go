package explore

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
)

// tries is how often a schedule may miss the point that it has to come to, before its choice is given up.
const tries = 3

// mostSlow is how often it may miss it besides, because the machine stood still.
const mostSlow = 10

// number matches what may differ in a request that is sent again: a delay, a time, a number of somebody's choice.
var number = regexp.MustCompile(`[0-9]+`)

// sameButNumbers reports whether two requests differ in such numbers at most.
func sameButNumbers(a, b string) bool {
	return a == b || number.ReplaceAllLiteralString(a, "0") == number.ReplaceAllLiteralString(b, "0")
}

// A chance counts at which points of schedules a choice was given up, because clients did something else there than
// before: they draw delays that nobody can seed, go through maps, or have goroutines side by side.
type chance struct {
	depths  []lots
	example string // how a schedule differed from another one, at the last that was given up
}

// lots are how many points there were, and at how many a choice was lost.
type lots struct{ points, lost int }

func (c *chance) at(depth int) *lots {
	c.depths = append(c.depths, make([]lots, max(0, depth+1-len(c.depths)))...)
	return &c.depths[depth]
}

func (c *chance) add(other chance) {
	for depth, n := range other.depths {
		sum := c.at(depth)
		sum.points, sum.lost = sum.points+n.points, sum.lost+n.lost
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
		c.at(depth).lost++
	}
	sum := w.within(b.cost)
	if all := sum.chance.sum(); all.lost > 100 && 2*all.lost > all.points {
		return sum.chance.tooMany(all)
	}
	return nil
}

func (c *chance) sum() (all lots) {
	for _, n := range c.depths {
		all.points, all.lost = all.points+n.points, all.lost+n.lost
	}
	return all
}

// enough returns an error where a choice was lost at more than a tenth of the points at one depth: what would have come
// after each is most of what there is near the start, and little near the end.
func (c *chance) enough() error {
	for _, n := range c.depths {
		if 10*n.lost > n.points {
			return c.tooMany(n)
		}
	}
	return nil
}

var errChance = errors.New("the same choices do not lead to the same points, so that nothing can be concluded")

func (c *chance) tooMany(n lots) error {
	return fmt.Errorf("%w: that was so at %d of %d points, the last time %s; usually a client draws delays or numbers "+
		"from math/rand/v2, goes through a map, or sends from several goroutines at once",
		errChance, n.lost, n.points, c.example)
}
