package search

import (
	"fmt"
	"slices"
	"strings"
)

// A run is a branch while it is played.
type run struct {
	*driver
	record   // its path is that of the branch, and then of what came after it
	branch   branch
	depth    int    // how many points it has come to
	mismatch string // how the schedule differs from the path; empty: it does not

	// Beside its twin, which has been in its state before:
	twin         *twin  // nil: it is played for itself
	beside       int    // how many points both have come to since then
	twinMismatch string // how it differs from the twin; empty: it does not
	twinWay      []node // to the state that both have been in
}

func newRun(d *driver, b branch) *run {
	r := &run{driver: d, branch: b}
	r.path = slices.Clone(b.nodes)
	r.states = make([]string, len(b.nodes)) // whose states were looked at before
	if len(b.nodes) > 0 {
		r.path[len(b.nodes)-1].at = b.last
	}
	return r
}

// choose is the next Choice: that of the path, and after its end the first. At each point
// of the path the options and the requests must be the same as before, at whatever time;
// if they are not, only first choices follow. A world calls it while it plays, when the driver
// is not locked.
func (r *run) choose(p ChoicePoint) (Choice, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	options := p.Options
	pending := p.Pending
	depth := r.depth
	r.depth++
	if r.mismatch != "" {
		return options[0], nil
	}

	// After the path first choices follow. The points of a schedule beside its twin are the
	// twin's, and are not counted.
	if depth >= len(r.path) {
		if err := r.addPoint(p); err != nil || r.twin != nil {
			return options[0], err
		}
		r.walk.tally(r.branch.cost).chance.at(depth).points++
	}

	// Clients that send something else than when the path was first gone are moved by chance.
	n := r.path[depth]
	if !slices.Equal(n.options, options) || !slices.EqualFunc(n.pending, pending, sameButNumbers) {
		r.mismatch = fmt.Sprintf("at step %d clients sent %q and the choices were %v, and now %q and %v",
			depth+1, n.pending, n.options, pending, options)
		return options[0], nil
	}
	return n.options[n.at], nil
}

// addPoint adds a point at which no schedule with the same choices has been. ErrMerged says
// that nothing new comes after it.
func (r *run) addPoint(p ChoicePoint) error {
	state := ""
	if p.State != nil && !r.Bounds.Unmerged {
		state = p.State()
	}
	// The walk keeps both slices: a World makes new ones at each point.
	reached := r.walk.pointOf(p.Options, p.Pending)
	known := &r.walk.states

	// Either it goes on beside its twin already, or it would end here and goes on only to be
	// compared with one, or the point is a new one of its own. Then covers has noted its state,
	// if it has one: see forget.
	switch {
	case r.twin != nil:
		r.beside++
	case state != "" && known.covers(state, r.branch.cost):
		r.joins = state
		r.twin = known.twins[state]
		if r.twin == nil {
			return ErrMerged
		}
		r.twinWay = r.twin.path[:r.twin.from]
	default:
		r.path = append(r.path, node{point: reached})
		r.states = append(r.states, state)
		return nil
	}

	if r.twin.ends(r.beside) {
		if err := r.nextTwin(state); err != nil {
			return err
		}
	}
	r.twinMismatch = r.twin.differs(r.beside, reached, state)
	if r.twinMismatch != "" {
		return ErrMerged
	}
	return nil
}

// nextTwin goes on beside the twin of the state at which the twin so far has joined a third
// schedule. ErrMerged says that there is none.
func (r *run) nextTwin(state string) error {
	next := r.walk.states.twins[state]
	switch {
	case r.twin.joins == "":
		r.twinMismatch = "one ended before the other"
		return ErrMerged
	case r.twin.joins != state:
		r.twinMismatch = "another state was come to"
		return ErrMerged
	case next == nil:
		return ErrMerged
	}

	r.twin = next
	r.beside = 0
	return nil
}

// endMismatch says how a schedule that was played to its end beside its twin ended
// otherwise; empty: it did not.
func (r *run) endMismatch(t *twin) string {
	switch {
	case t.joins != "" || !t.ends(r.beside+1):
		return "one ended before the other"
	case !slices.Equal(t.harms, r.harms):
		return fmt.Sprintf("one did the harms %q, and the other %q", t.harms, r.harms)
	}
	return ""
}

// choicesOf are the choices of a path, as a token has them.
func choicesOf(path []node) string {
	all := make([]string, len(path))
	for i, n := range path {
		all[i] = n.options[n.at].String()
	}
	return strings.Join(all, ".")
}
