package history

import (
	"fmt"
	"slices"
	"strings"
)

// maxDescribed bounds how many operations a story describes: the last ones.
const maxDescribed = 12

// A telling is a story in its parts.
type telling struct {
	of    string   // what it is about
	start string   // where or what that was before; empty: nothing is to be said
	steps []string // what happened, by the time of return
	wrong string   // what is wrong with that
}

func (t telling) String() string {
	all := t.steps
	if t.start != "" {
		all = append([]string{t.start}, all...)
	}
	return t.of + ": " + strings.Join(all, ", ") + ": " + t.wrong
}

// told describes the operations of a finding, by the time of return.
func (f *finding) told() (told []string) {
	steps := byReturn(f.steps)
	// What was under way is described only in a short story.
	steps = slices.DeleteFunc(steps, func(s step) bool { return s.ret == never && len(f.steps) > maxDescribed })
	if len(steps) > maxDescribed {
		told = append(told, fmt.Sprintf("after %d other operations", len(steps)-maxDescribed))
		steps = steps[len(steps)-maxDescribed:]
	}
	for i := range steps {
		told = append(told, steps[i].words())
	}
	return told
}

// last is the action that completed last: without it there was an order.
func (f *finding) last() (last action) {
	for _, s := range byReturn(f.steps) {
		if s.ret != never {
			last = s.act
		}
	}
	return last
}

// itemStart says where an item lay before, if it was anywhere.
func (f *finding) itemStart() string {
	if f.from == state(location{}) {
		return ""
	}
	return fmt.Sprintf("lies %s", f.from)
}

// itemFault names what is wrong with the operations on an item.
func (f *finding) itemFault() string {
	switch last := f.last().(type) {
	case ending:
		if len(last) == 0 {
			return "lost"
		}
		if len(last) > 1 {
			return "in several places"
		}
		return "nothing brought it there"
	case look:
		return "refused, though there was no such moment"
	case move:
		return f.moveFault(last)
	}
	return "there is no such order"
}

func (f *finding) moveFault(last move) string {
	sales, other, offered := 0, false, false
	for _, s := range f.steps {
		m, ok := s.act.(move)
		if !ok || s.ret == never {
			continue
		}
		if m.from.listed && m.from == last.from {
			sales++
		}
		offered = offered || m.to == last.from
		other = other || m.to.listed && m.to.user == last.from.user
	}
	switch {
	case last.from == location{}:
		return "minted twice"
	case !last.from.listed:
		return "listed by one who did not have it"
	case sales > 1:
		return "sold twice"
	case !offered && other:
		return "sold at a price at which it was not listed"
	case !offered && f.from != state(last.from):
		return "sold without being listed"
	}
	return "there is no such order"
}
