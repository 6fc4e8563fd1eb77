package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
)

// The promises of a lock that are judged, as package locktest names them.
const (
	exclusive        = "exclusive"
	ownerOnly        = "owner-only release"
	survivesCrash    = "survives a crash"
	clockIndependent = "clock-independent"
	fenced           = "fenced"
	noticesLoss      = "notices loss"
)

// The programs of a lock: holders leave at once, the first holder works for one lease and
// a half, and the clock of the second client is ahead by clockStep.
const (
	locks     = "lock"
	works     = "lock-works"
	clockOff  = "lock-clock"
	clockStep = time.Hour
)

// lacking says for each promise why it can be unchecked: what did not happen
// that could have shown it broken.
var lacking = []struct{ promise, why string }{
	{exclusive, "in no schedule did the two lock three times"},
	{ownerOnly, "nobody released the lock after another had got in"},
	{survivesCrash, "nobody got in after a holder had died"},
	{clockIndependent, "the two did not lock three times in the time that was left"},
	{fenced, "it prints no fencing tokens"},
	{noticesLoss, "no release of a lock that another had got said that it was lost"},
}

// Judge goes through the schedules of a lock, or where o.Purchase is set of each of
// Markets. An error says why nothing can be concluded of one of them; what was found of
// others is returned with it, even if ctx has ended meanwhile.
func Judge(ctx context.Context, o Options) (*findings.Explorations, error) {
	res := &findings.Explorations{Schema: findings.ExplorationsSchema, Judged: true}
	left, shown := o.Within, map[string]bool{}
	programs := []string{locks, works, clockOff}
	if o.Purchase {
		programs = Markets()
	}
	why, failed := "", error(nil)
	for n, program := range programs {
		one := o
		one.Program = program
		if n > 0 {
			one.Proof = nil
		}
		if o.Within > 0 { // time that a program leaves is for those that follow
			one.Within = max(1, left/time.Duration(len(programs)-n))
		}
		switch program {
		case works:
			one.Bounds.Preemptions = 0
		case clockOff:
			one.Bounds.Preemptions, one.Bounds.Faults = max(1, o.Bounds.Preemptions), 0
		}
		s, err := Run(ctx, one)
		left -= s.took
		if errors.Is(err, errClock) {
			why = err.Error()
			continue
		}
		if err != nil && ctx.Err() != nil {
			err = errors.New("an interruption came first")
		}
		if err != nil && n > 0 { // what was found before counts
			none := findings.Exploration{
				Judged: true, Scheme: process.ShellLine(o.Command...), Program: program, Why: err.Error(),
			}
			res.Searches = append(res.Searches, none)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", program, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		res.Searches = append(res.Searches, one.explored(s.Result)...)
		if program == clockOff && s.reached[exclusive] {
			s.reached = map[string]bool{clockIndependent: true}
		}
		maps.Copy(shown, s.reached)
	}
	if !o.Purchase {
		res.Promises = promises(res.Searches, shown, why)
	}
	return res, failed
}

// promises says for each promise whether it is kept, and for a kept one which
// search has not come to its end.
func promises(all []findings.Exploration, shown map[string]bool, clock string) (states []verify.PromiseState) {
	for _, p := range lacking {
		s := verify.PromiseState{Promise: p.promise, State: "kept"}
		broken := slices.IndexFunc(all, func(e findings.Exploration) bool { return e.Broken == p.promise })
		untold := slices.IndexFunc(all, func(e findings.Exploration) bool { return e.Harm == verify.NotTold })
		switch {
		case broken >= 0:
			s.State, s.Why = "broken", all[broken].Shows
		case p.promise == noticesLoss && untold >= 0:
			s.State, s.Why = "not kept", all[untold].Shows
		case !shown[p.promise]:
			s.State, s.Why = "unchecked", p.why
			if p.promise == clockIndependent {
				s.Why = cmp.Or(clock, s.Why)
			}
		default:
			for _, e := range all {
				ended := e.Harm != "" || e.Stopped == "" && e.Why == ""
				if !ended && s.Why == "" && (e.Program == clockOff) == (p.promise == clockIndependent) {
					s.Why = fmt.Sprintf("as far as the search of %s came: %s", e.Program, e.Found())
					if strings.Contains(e.Stopped, search.ErrChance.Error()) {
						s.State = "unchecked"
					}
				}
			}
		}
		states = append(states, s)
	}
	return states
}

// explored is a report as it is stored: an entry for each harm, then one that says
// how far nothing else was found.
func (o Options) explored(r search.Result) (all []findings.Exploration) {
	none := findings.Exploration{
		Judged: true, Scheme: process.ShellLine(o.Command...), Program: o.program().Name,
		Searched: findings.Searched{
			Preemptions: r.Preemptions, Faults: r.Faults, Schedules: r.Schedules, Harmful: r.Harmful, Stopped: r.Stopped,
			Points: r.Points, Lost: r.Lost,
		},
	}
	for _, kind := range o.Bounds.Kinds {
		none.Of = append(none.Of, string(kind))
	}
	for _, f := range r.Found {
		all = append(all, o.Found(none, f))
	}
	return append(all, none)
}

// Found is a harm as it is stored, with what was searched. Three harms break no promise:
// an outlived lease, which no lock that expires prevents, a purchase without an answer,
// and a loss untold by a lock that does not promise to tell.
func (o Options) Found(of findings.Exploration, f search.Found) findings.Exploration {
	of.Shortest(f.Violation, f.Preemptions, f.Faults, f.Token)
	of.Diagram = &f.Diagram
	of.Broken = map[verify.Harm]string{
		verify.TwoHolders: exclusive, verify.FreedAnothers: ownerOnly, verify.LockedOut: survivesCrash,
		verify.FenceRepeats: fenced,
	}[f.Harm]
	switch {
	case f.Harm == "" || f.Harm == verify.NoHarm:
	case slices.Contains(Markets(), of.Program) && f.Harm != verify.DoesNotEnd:
		of.Broken = "no item is sold twice, and no coin is lost"
	case of.Program == clockOff && of.Broken != "":
		of.Broken = clockIndependent
	case f.Harm == verify.LockedOut && f.Faults == 0:
		of.Broken = "who waits gets in"
	case f.Harm == verify.NotTold && o.NoticesLoss:
		of.Broken = noticesLoss
	}
	return of
}

// errClock is returned where the clock of a client cannot be set, or nothing
// shows that it was.
var errClock = errors.New("the clock of a client was not set")

// ahead is a command whose wall clock is ahead; its sleeps are as long as before.
func ahead(command []string) ([]string, error) {
	faketime, err := exec.LookPath("faketime")
	if err != nil {
		return nil, fmt.Errorf("%w: faketime is not installed", errClock)
	}
	return slices.Concat([]string{faketime, "-m", "-f", "+" + fmt.Sprint(clockStep.Seconds()) + "s"}, command), nil
}

// clockShows is an error unless the clock of the second client is ahead of that
// of the first, as both say.
func (p *pair) clockShows() error {
	var at [2]int64
	for i, c := range p.clients {
		said, _ := p.answer(c, 2*time.Second, "now") // empty where it has not
		if _, err := fmt.Sscan(said, &at[i]); err != nil {
			return fmt.Errorf("%w: the program does not answer the line now", errClock)
		}
	}
	if time.Duration(at[1]-at[0])*time.Millisecond < clockStep/2 {
		return fmt.Errorf("%w: faketime does not reach the program", errClock)
	}
	return nil
}
