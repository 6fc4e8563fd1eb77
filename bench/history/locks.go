package history

import (
	"cmp"
	"fmt"
	"slices"
)

// locks checks that no two workers held a lock at a time, unless both shared it; and, as a part of its own, that
// fencing tokens grow.
//
// A worker surely acts as the holder from the return of its acquisition to the call of its release. A worker that
// learned earlier that its lock was lost stopped at a moment that is not known, so its hold is left out.
func (c *checker) locks() (held, tokens *Part) {
	held, tokens = newPart(LocksPart), newPart(TokensPart)
	holds := slices.Clone(c.h.Holds)
	slices.SortStableFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Acquired, b.Acquired), cmp.Compare(a.Releasing, b.Releasing))
	})
	if len(holds) == 0 {
		held.Answer, held.Checked = NotChecked, "no lock was recorded"
	}
	if n := count(holds, fenced); n > 0 {
		tokens.Checked = fmt.Sprintf("%d holds with fencing tokens: that they grow", n)
	} else {
		tokens.Answer, tokens.Checked = NotChecked, "no fencing token was recorded"
	}
	total := len(holds)
	names := 0
	for len(holds) > 0 {
		n := dropped(holds, func(h Hold) bool { return h.Name == holds[0].Name })
		names++
		overlaps(held, holds[:n])
		fences(tokens, holds[:n])
		holds = holds[n:]
	}
	if total > 0 {
		held.Checked = fmt.Sprintf("%d locks, held %d times: who held each", names, total)
	}
	return held, tokens
}

func fenced(h Hold) bool { return h.Fence != 0 }

// overlaps finds holds, sorted by their acquisition and then their release, that exclude each other and overlap. It is
// enough to compare each with the longest exclusive and the longest shared one that began before it: if it overlaps
// any, it overlaps those. Holds that meet in one instant do not overlap, because the clock cannot tell which came
// first.
func overlaps(p *Part, holds []Hold) {
	var longest [2]*Hold // exclusive, shared
	for i := range holds {
		h := &holds[i]
		if h.Noticed {
			continue
		}
		kinds := longest[:]
		if h.Shared {
			kinds = longest[:1]
		}
		for _, other := range kinds {
			if other != nil && h.Acquired < other.Releasing {
				p.tell("lock %q: held by worker %d (%s-%s s), and by worker %d (%s-%s s): two holders", h.Name,
					other.Worker, trimmed(other.Acquired), trimmed(other.Releasing),
					h.Worker, trimmed(h.Acquired), trimmed(h.Releasing))
				break
			}
		}
		kind := &longest[0]
		if h.Shared {
			kind = &longest[1]
		}
		if *kind == nil || h.Releasing > (*kind).Releasing {
			*kind = h
		}
	}
}

// fences finds tokens that do not grow: one that is not larger than that of a hold that had been acquired before this
// one was called for. It is enough to compare each with the largest token until then.
func fences(p *Part, holds []Hold) {
	holds = slices.DeleteFunc(slices.Clone(holds), func(h Hold) bool { return !fenced(h) })
	called := slices.SortedStableFunc(slices.Values(holds), func(a, b Hold) int { return cmp.Compare(a.Called, b.Called) })
	var largest *Hold
	for _, h := range called {
		for len(holds) > 0 && holds[0].Acquired < h.Called {
			if largest == nil || holds[0].Fence > largest.Fence {
				largest = &holds[0]
			}
			holds = holds[1:]
		}
		if largest != nil && h.Fence <= largest.Fence {
			p.tell("lock %q: worker %d got fencing token %d (%s s), and worker %d after it %d (%s s): tokens must grow",
				h.Name, largest.Worker, largest.Fence, trimmed(largest.Acquired), h.Worker, h.Fence, trimmed(h.Acquired))
		}
	}
}
