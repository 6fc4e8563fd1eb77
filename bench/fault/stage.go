package fault

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/masters"
)

// What a stage is set with.
const (
	seller   = market.UserID(1)
	accounts = 8
	funds    = 1000 // coins of each account
	price    = 40   // coins of each item
	offered  = 12   // items that are listed when the play begins
)

// errLate is returned for a play in which this machine was too slow to tell the subject's fault from its own.
var errLate = errors.New("the machine was too slow for this scenario's short leases")

// A Stage is one market with the clients of one play. Its first failure is kept, and nothing happens after it, so that a
// play reads as a story; whoever staged it asks for the failure at the end.
type Stage struct {
	Subject Subject

	ttl        time.Duration // how long its leases last
	ctx        context.Context
	lab        *Lab
	cast       casting // of actors to come; a play may change it
	conn       *backend.Conn
	keys       market.Keys
	first      market.ItemID // of the seller's; the first few are listed
	before     market.Snapshot
	actors     []*Actor
	operations []*operation
	nth        int              // the command at which a subject that does not say where it is is held
	masters    *masters.Masters // of a lock that needs some
	closers    []io.Closer      // what the play started besides
	err        error
}

func newStage(ctx context.Context, lab *Lab, subject Subject, ttl time.Duration) *Stage {
	s := &Stage{Subject: subject.lasting(ttl), ttl: ttl, ctx: ctx, lab: lab}
	s.fail(s.set())
	return s
}

// fail notes the stage's first failure.
func (s *Stage) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *Stage) failed() bool { return s.err != nil }

// pass lets time pass.
func (s *Stage) pass(d time.Duration) {
	if s.failed() {
		return
	}
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		s.fail(s.ctx.Err())
	}
}

// endless is for how long a lock must be stuck before it is called stuck for good.
func (s *Stage) endless() time.Duration { return 3*s.ttl + s.ttl/2 }

// lasting is endless for a lock whose holder lives: one whose renewals are counted may go on for a few TTLs more.
func (s *Stage) lasting() time.Duration {
	if hasParam(s.Subject, "renewals") {
		return s.endless() + 3*s.ttl
	}
	return s.endless()
}

// waited is how long somebody must have waited to be called stuck, where the whole of a lease was left.
func (s *Stage) waited() time.Duration { return s.ttl * 3 / 5 }

// outlasted reports whether a wait was one for a lease to run out, of which nearly all was left. It fails the stage as
// late where the wait was too long for a lock that was free, and too short for that.
func (s *Stage) outlasted(wait time.Duration) bool {
	if wait > s.ttl*3/10 && wait < s.ttl*7/10 {
		s.fail(errLate)
	}
	return wait >= s.ttl*7/10
}

// prompt fails the stage as late if more time has passed than a lease allows for what was done in it.
func (s *Stage) prompt(since time.Time) {
	if time.Since(since) > s.ttl*3/4 {
		s.fail(errLate)
	}
}

// dismiss ends all clients. What they were still at is of unknown outcome.
func (s *Stage) dismiss() {
	for _, a := range s.actors {
		a.kill()
	}
}

// close ends everything and returns the stage's failure.
func (s *Stage) close() error {
	s.dismiss()
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.fail(s.closers[i].Close())
	}
	if s.conn != nil {
		s.fail(s.conn.Close())
	}
	return s.err
}
