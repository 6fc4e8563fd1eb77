package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// The promises of a lock that are judged, as package locktest names them.
const (
	exclusive        = "exclusive"
	ownerOnly        = "owner-only release"
	survivesCrash    = "survives a crash"
	clockIndependent = "clock-independent"
	fenced           = "fenced"
	noticesLoss      = "notices loss"
	// These have no name in locktest.
	survivesCancel = "survives a cancelled call"
	worksOn        = "locks again after a fault"
)

// A judgement is what was found about all programs of a lock. What is not promised (a fencing
// token, to notice a loss) is judged as well: kept means that the lock does so.
type judgement struct {
	searches    []findings.Exploration
	unreached   map[string]shortfall // what a program's search has left out below the floor
	tested      map[string]bool      // the promises that something has put to the test
	keptOut     map[string]string    // see world.keptOut
	seen        map[string]string    // what would break a promise, and was not played again
	clock       string               // why the clock of a client was not set; empty: it was
	trusted     []string             // words that may have a clock inside, which were trusted
	uncancelled string               // why no call was cancelled; empty: calls were
}

func newJudgement() judgement {
	return judgement{
		tested:    map[string]bool{},
		keptOut:   map[string]string{},
		seen:      map[string]string{},
		unreached: map[string]shortfall{},
	}
}

// add adds what was found of one program. o is what the method only returns for it: promises
// and belowFloor go by the program and the bounds there.
func (f *judgement) add(o Options, searched ProgramResult) {
	maps.Copy(f.tested, o.promises(searched))
	maps.Copy(f.keptOut, searched.keptOut)
	f.trusted = searched.trusted

	name := o.program().Name
	for _, of := range slices.SortedFunc(maps.Keys(searched.unconfirmed), cause.compare) {
		if promise := o.brokenByLock(name, of); promise != "" {
			f.seen[promise] = fmt.Sprintf("in %s %q was seen, and there was no time to play it again", name, of.harm)
		}
	}

	if left := o.belowFloor(searched); left.why != "" {
		f.unreached[name] = left
	}
	if name == locks {
		f.uncancelled = o.uncancelled(searched)
	}
}

// offers reports whether there is anything by which the lock could keep a promise.
func (f judgement) offers(promise string) bool {
	switch promise {
	case fenced:
		return f.tested[fenced]
	case survivesCancel:
		return !strings.Contains(f.uncancelled, unheard)
	}
	return true
}

// bears reports whether the search of a program bears on a promise. What a clock that is
// wrong does is for its own searches to show.
func bears(program, promise string) bool {
	return setsClock(program) == (promise == clockIndependent)
}

// untested says of each promise, in the order of a report, why it may be that nothing has
// put it to the test.
var untested = []struct{ promise, why string }{
	{exclusive, "in no schedule did the two lock three times"},
	{ownerOnly, "nobody released the lock after another had got in"},
	{survivesCrash, "nobody got in after a holder had died"},
	{clockIndependent, "the two did not lock three times in the time that was left"},
	{fenced, "it prints no fencing tokens"},
	{noticesLoss, "no release of a lock that another had got said that it was lost"},
	{survivesCancel, "nobody got in after a call had been cancelled"},
	{worksOn, "no program lived through a fault"},
}

// Promises are the names of the promises of a lock, in the order of a report.
func Promises() (names []string) {
	for _, u := range untested {
		names = append(names, u.promise)
	}
	return names
}

// State of a promise that a lock cannot keep, because it offers nothing of the kind.
const notOffered = "not offered"

// verdicts says for each promise whether it is kept. Its states are also literals in
// internal/view and cmd/marketsim, and listed in docs/judged-format.md.
func (f judgement) verdicts() (all []verify.PromiseState) {
	for _, u := range untested {
		why := u.why
		switch u.promise {
		case clockIndependent:
			why = cmp.Or(f.clock, why)
		case survivesCancel:
			why = cmp.Or(f.uncancelled, why)
		}

		verdict := f.verdict(u.promise, why)
		if verdict.State == "unchecked" && !f.offers(u.promise) {
			verdict.State = notOffered
			verdict.Why = why
		}
		all = append(all, verdict)
	}
	return all
}

// verdict says whether a promise was broken, was never put to the test, for the reason why,
// or is kept: then, too, which search has not come to its end. That a loss is noticed is
// broken only where it was promised, see Options.Entry, and else not kept.
func (f judgement) verdict(promise, why string) verify.PromiseState {
	s := verify.PromiseState{Promise: promise, State: "kept"}
	first := func(is func(findings.Exploration) bool) int {
		return slices.IndexFunc(f.searches, is)
	}
	broken := first(func(e findings.Exploration) bool { return e.Broken == promise })
	untold := first(func(e findings.Exploration) bool { return e.Harm == verify.NotTold })

	// A harm that was seen comes first: it stays true, whatever was left out.
	switch {
	case broken >= 0:
		s.State = "broken"
		s.Why = f.searches[broken].Shows
		return s
	case f.keptOut[promise] != "":
		s.State = "broken"
		s.Why = f.keptOut[promise]
		return s
	case promise == noticesLoss && untold >= 0:
		s.State = "not kept"
		s.Why = f.searches[untold].Shows
		return s
	case !f.tested[promise], promise == clockIndependent && f.clock != "":
		s.State = "unchecked"
		s.Why = cmp.Or(f.leftOut(promise), why) // what was not played may have put it to the test
		return s
	}

	if why := cmp.Or(f.seen[promise], f.leftOut(promise)); why != "" {
		s.State = "unchecked"
		s.Why = why
		return s
	}

	cut := first(func(e findings.Exploration) bool {
		return cutShort(e) && bears(e.Program, promise)
	})
	if cut >= 0 {
		e := f.searches[cut]
		s.Why = fmt.Sprintf("as far as the search of %s came: %s", e.Program, e.Found())
		if strings.Contains(e.Stopped, search.ErrChance.Error()) {
			s.State = "unchecked"
		}
	}
	return s
}

// cutShort reports whether an entry says that its search has not come to its end.
func cutShort(e findings.Exploration) bool {
	return e.Harm == "" && (e.Stopped != "" || e.Why != "")
}

// entries are a report as it is stored: an entry for each harm, then one that says
// how far nothing else was found.
func (o Options) entries(r ProgramResult) (all []findings.Exploration) {
	none := findings.Exploration{
		Judged:  true,
		Scheme:  o.Scheme(),
		Program: o.program().Name,
		Lease:   r.lease(),
		Searched: findings.Searched{
			Preemptions: r.Preemptions,
			Faults:      r.Faults,
			Schedules:   r.Schedules,
			Points:      r.Points,
			Harmful:     r.Harmful,
			Lost:        r.Lost,
			Stopped:     r.Stopped,
		},
	}
	// The kinds are stored where they are not those that every program is judged with.
	if o.Bounds.Kinds != nil || slices.Contains(r.kinds, explore.Cancel) {
		for _, kind := range r.kinds {
			none.Of = append(none.Of, string(kind))
		}
	}

	for _, f := range r.Found {
		of := none
		of.Schedules = r.Played // f.Harmful is of all that were played
		of.Harmful = f.Harmful
		all = append(all, o.Entry(of, f))
	}
	return append(all, none)
}

// withoutClocks changes entries of a program in which a clock is wrong. A harm that was found
// before, with clocks that are right, breaks what it broke then.
func withoutClocks(all, before []findings.Exploration) []findings.Exploration {
	for i, e := range all {
		same := slices.IndexFunc(before, func(b findings.Exploration) bool {
			return b.Harm == e.Harm && !setsClock(b.Program)
		})
		if setsClock(e.Program) && e.Broken != "" && same >= 0 {
			all[i].Broken = before[same].Broken
		}
	}
	return all
}

// Entry is a harm as it is stored, with what was searched.
func (o Options) Entry(of findings.Exploration, f search.Found) findings.Exploration {
	of.Shortest(f.Violation, f.Preemptions, f.Faults, f.Token)
	of.Diagram = &f.Diagram
	of.Broken = o.broken(of.Program, f)
	return of
}

// brokenBy is the promise of a lock that a harm breaks; but see keptOutBreaks.
var brokenBy = map[verify.Harm]string{
	verify.TwoHolders:    exclusive,
	verify.FreedAnothers: ownerOnly,
	verify.LockedOut:     survivesCrash,
	verify.FenceRepeats:  fenced,
	verify.NoLongerLocks: worksOn,
}

// broken is the promise that a harm of a program breaks; empty: none. Four harms break none: an
// outlived lease, which no lock that expires prevents, a purchase without an answer, a loss that
// was none, and a loss untold by a lock that does not promise to tell.
func (o Options) broken(program string, f search.Found) string {
	isHarm := f.Harm != "" && f.Harm != verify.NoHarm && f.Harm != verify.DoesNotEnd
	if isHarm && slices.Contains(MarketNames(), program) {
		return "no item is sold twice, and no coin is lost"
	}
	return o.brokenByLock(program, causeStruck(f.Harm, f.Struck))
}

// brokenByLock is the promise that a cause breaks in a program of a lock, confirmed or not;
// empty: none.
func (o Options) brokenByLock(program string, c cause) string {
	promise := brokenBy[c.harm]
	switch {
	case promise != "" && setsClock(program):
		return clockIndependent
	case c.harm == verify.NotTold && o.NoticesLoss:
		return noticesLoss
	}
	return cmp.Or(c.breaks, promise)
}
