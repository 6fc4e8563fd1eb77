package search

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/marketsim/marketsim/verify"
)

// states are those that schedules have been in. A schedule ends where it comes to one in
// which an earlier one has been at no higher cost: all that it could go on with is played
// already, or will be, by the branches of the other one. Since schedules are played in the
// order of their costs, a harm is still found first with the fewest faults, and of these the
// fewest preemptions.
//
// That stands on equal states having equal futures, so that it is tried: one state in a
// hundred is no end. A schedule that comes to it again is played on beside its twin, the
// one that was there first, until that ended: it has to have the same requests and states,
// no choice that the twin had not, and in the end the same harms.
type states struct {
	costs map[string][]cost // at which schedules have been in a state; none covers another
	twins map[string]*twin
}

// A twin is the first schedule that has been in a state, and how it went on from there: with
// the first choice at each point.
type twin struct {
	*record
	from int // the point at which it was in that state
}

// A record is a schedule that was played: its points, the state at each, and how it ended.
type record struct {
	path   []node
	states []string
	harms  []verify.Harm
	// The state at which it came to that of an earlier one, and its points end; empty: it did not.
	joins string
}

// One state in so many is tried.
const tried = 100

// isTried says which state is: always the same ones.
func isTried(state string) bool {
	h := fnv.New32a()
	h.Write([]byte(state))
	return h.Sum32()%tried == 0
}

// covers reports whether an earlier schedule has been in a state at no higher cost. If none
// has, this one has from now on.
func (s *states) covers(state string, c cost) bool {
	for _, earlier := range s.costs[state] {
		if earlier.within(c) {
			return true
		}
	}
	s.costs[state] = append(s.costs[state], c)
	return false
}

// forget takes back what a schedule that was given up has noted of its states from one
// point on: nothing was played from there.
func (s *states) forget(r *record, from int, c cost) {
	for _, state := range r.states[from:] {
		s.costs[state] = slices.DeleteFunc(s.costs[state], func(noted cost) bool {
			return noted == c
		})
	}
}

// keep notes a schedule as the twin of those that will come to one of its states.
func (s *states) keep(r *record) {
	for at, state := range r.states {
		if state != "" && isTried(state) && s.twins[state] == nil {
			s.twins[state] = &twin{record: r, from: at}
		}
	}
}

// differs says in what a point that this many points after the common state was come to
// differs from the twin's; empty: in nothing.
func (t *twin) differs(after int, p *point, state string) string {
	was := t.path[t.from+after]
	offered := func(c Choice) bool { return slices.Contains(was.options, c) }
	switch {
	case !slices.Equal(was.pending, p.pending):
		return fmt.Sprintf("clients sent %q, and now %q", was.pending, p.pending)
	case was.options[0] != p.options[0] || !allOf(p.options, offered):
		return fmt.Sprintf("the choices were %v, and now %v", was.options, p.options)
	case t.states[t.from+after] != state:
		return "another state was come to"
	}
	return ""
}

func allOf(options []Choice, is func(Choice) bool) bool {
	return !slices.ContainsFunc(options, func(c Choice) bool {
		return !is(c)
	})
}

// ends reports whether the twin was played no further than that.
func (t *twin) ends(after int) bool { return t.from+after >= len(t.path) }

// harmsOf are the kinds of harms, each once.
func harmsOf(found []verify.Violation) (kinds []verify.Harm) {
	for _, v := range found {
		kinds = append(kinds, v.Harm)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
