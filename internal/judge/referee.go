package judge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/verify"
)

// A referee holds what the clients of one schedule are told, and say, against the promises
// of a lock. It knows of no process and no server: it is told of each thing when it
// happens, by methods in the third person, which have nothing done; and notes harms, and which
// promises would have been seen broken. Of two
// explanations of what it sees it takes the one that is better for the lock: a lease lasts
// from when the request that may have begun it was sent on, and for the least time that
// was measured, but no longer than a time in that request says.
type referee struct {
	lease    time.Duration   // the least that a lease can be, or for which a lock without one stays
	patience time.Duration   // how long a client may be kept out of a lock that nobody holds
	tested   map[string]bool // the promises that something has put to the test
	// The clock of a client is wrong. Who gets in then may owe it to that clock, and not to a
	// release: what releases alone do is seen in the programs whose clocks are right.
	wrongClock bool

	claims       []*claim // of the clients
	harms        []verify.Violation
	acquisitions int
	contended    bool   // a client has asked for the lock while the other one held it
	orphaned     bool   // a holder has died
	cancels      int    // how many calls were cancelled
	unanswered   bool   // such a call did not say what it has done
	lastReleased string // who has released since a client acquired; empty: nobody has
	struck       bool   // a fault has happened
	fence        int64  // the largest token so far, or noFence
}

// noFence is less than every token.
const noFence = math.MinInt64

// A phase is what a client does.
type phase int

const (
	acquiring phase = iota // or buying
	holding
	releasing
	unreleased // its release has failed, may have been executed, and is to be repeated
	ended      // or dead
)

// A claim is what a referee knows of a client.
type claim struct {
	name     string
	phase    phase
	left     int       // how often it is still to lock
	answer   string    // the last one
	acquired time.Time // when it said so
	sent     time.Time // when its last request was sent on to the server

	// A lease begins with the first request of its take, which may be sent again, and ends at
	// a time that one of them says; zero: none has.
	firstRequest    string
	expires         time.Time
	leaseBegins     time.Time
	leaseEnds       time.Time
	lastLeaseBegins time.Time // from when the lease of its last request counts
	// What lastLeaseBegins was when the client was stopped while it took the lock: its lease may have
	// begun then. Zero: it was not stopped.
	leaseBeforePause time.Time

	cancelled bool // the call that is under way
	// An earlier release of what it now releases has failed: it may have freed the lock.
	repeats bool
}

// newReferee is the referee of clients that are to lock twice and once.
func newReferee(w *world) *referee {
	r := &referee{
		lease:      max(w.leastLease, w.keeps),
		patience:   2*w.lease + settleLimit,
		tested:     w.tested,
		wrongClock: setsClock(w.program),
		fence:      noFence,
	}
	for n, c := range w.clients {
		r.claims = append(r.claims, &claim{name: c.Name, left: len(w.clients) - n})
	}
	return r
}

// other is the claim of the other client.
func (r *referee) other(client int) *claim { return r.claims[1-client] }

// held reports whether a client holds the lock, as far as it was told, or may hold it.
func (r *referee) held() bool {
	return slices.ContainsFunc(r.claims, func(c *claim) bool {
		return c.phase == holding || c.phase == unreleased
	})
}

// allEnded reports whether all clients have ended.
func (r *referee) allEnded() bool {
	return !slices.ContainsFunc(r.claims, func(c *claim) bool {
		return c.phase != ended
	})
}

// A term is that of the lease which a request may begin.
type term struct {
	begins time.Time
	ends   time.Time // at the latest; zero: the request does not say
}

// sends notes that a client's request is sent on to the server. While the client takes the
// lock it also notes from when its lease lasts, and until when: acquires relies on that.
func (r *referee) sends(client int, request string, t term) {
	c := r.claims[client]
	c.sent = time.Now()
	c.lastLeaseBegins = t.begins
	if c.phase != acquiring {
		return
	}

	if c.firstRequest == "" {
		c.firstRequest = request
	}
	if c.firstRequest == request {
		c.leaseBegins = t.begins
	}
	if !t.ends.IsZero() {
		c.expires = t.ends
	}
	r.contended = r.contended || r.other(client).phase == holding
}

// renews notes that a request of a client, which came at a time, was answered at another: if
// it holds the lock, that may have renewed its lease, from when it came on. One that was
// answered when the lease may have ended found nothing to renew.
func (r *referee) renews(client int, came, answered time.Time) {
	c := r.claims[client]
	ends := came.Add(r.lease)
	if c.phase == holding && !r.mayHaveEnded(c.leaseEnds, answered) && ends.After(c.leaseEnds) {
		c.leaseEnds = ends
	}
}

// pauses notes that a client is stopped.
func (r *referee) pauses(client int) {
	c := r.claims[client]
	if c.phase == acquiring {
		c.leaseBeforePause = c.lastLeaseBegins
	}
}

// hears notes an answer of a client, whatever it means.
func (r *referee) hears(client int, answer string) { r.claims[client].answer = answer }

// leaves notes that a client is told to release the lock.
func (r *referee) leaves(client int) {
	c := r.claims[client]
	c.repeats = c.phase == unreleased
	c.phase = releasing
	c.cancelled = false
}

// cancelsCall notes that the call of a client is cancelled.
func (r *referee) cancelsCall(client int) {
	r.claims[client].cancelled = true
	r.cancels++
}

// repeatsRelease reports whether a release that has failed is to be repeated: once, as
// documentation tells users, and again if it was cancelled.
func (r *referee) repeatsRelease(client int) bool {
	c := r.claims[client]
	return c.cancelled || !c.repeats
}

// failsToRelease notes that a release has failed, and does not say what it has done.
// From now on the client is not inside: it may have freed the lock. Nor is another one kept
// out before it has released again: it may still hold the lock, and renew it.
func (r *referee) failsToRelease(client int) {
	c := r.claims[client]
	r.lastReleased = c.name
	r.unanswered = r.unanswered || c.cancelled
	c.phase = unreleased
}

// strikes notes that a fault happens.
func (r *referee) strikes() { r.struck = true }

// ends notes that a client does no more.
func (r *referee) ends(client int) { r.claims[client].phase = ended }

// dies notes that a client is to die.
func (r *referee) dies(client int) {
	r.orphaned = r.orphaned || r.claims[client].phase == holding
}

// takesAgain notes that a client takes the lock from the beginning.
func (r *referee) takesAgain(client int) {
	c := r.claims[client]
	r.unanswered = r.unanswered || c.phase == acquiring && c.cancelled
	c.phase = acquiring
	c.cancelled = false
	c.repeats = false
	c.leaseBeforePause = time.Time{}
	c.firstRequest = ""
	c.expires = time.Time{}
}

// acquires notes that a client has acquired the lock: perhaps while the other one holds
// it, perhaps with a fencing token.
func (r *referee) acquires(client int, token string) {
	c := r.claims[client]
	c.phase = holding
	c.acquired = time.Now()
	c.leaseEnds = c.leaseBegins.Add(r.lease)
	if !c.expires.IsZero() && c.expires.Before(c.leaseEnds) {
		c.leaseEnds = c.expires
	}

	r.acquisitions++
	r.testedIf(exclusive, r.acquisitions == takes && r.contended)
	r.testedIf(survivesCrash, r.orphaned)
	r.testedIf(survivesCancel, r.unanswered)

	if r.other(client).phase == holding {
		r.twoHold(c, r.other(client))
	}
	r.lastReleased = "" // after twoHold, which asks for it
	r.compareTokens(c, token)
}

// twoHold notes the harm that a client has acquired the lock, and another one holds it.
func (r *referee) twoHold(c, holder *claim) {
	harm := verify.TwoHolders
	how := " and within its lease"
	stopped := !c.leaseBeforePause.IsZero()

	// What is no accusation comes first: it is better for the lock.
	switch {
	case stopped && r.mayHaveEnded(c.leaseBeforePause.Add(r.lease), holder.acquired):
		harm = verify.Outlived
		how = ", because the lease of " + c.name + " has run out while it took the lock"
	case r.mayHaveEnded(holder.leaseEnds, c.acquired):
		harm = verify.Outlived
		how = ", whose lease has run out"
	case r.lastReleased != "" && !r.wrongClock: // not by the holder, who has not left
		harm = verify.FreedAnothers
		how += ", after a release by " + r.lastReleased
	}

	r.harm(harm, c.name+" enters while "+holder.name+" is inside"+how)
}

// margin is how long before its end a lease may have ended already: the server counts it by
// a clock of its own, in whole milliseconds.
func (r *referee) margin() time.Duration { return r.lease / 50 }

// mayHaveEnded reports whether a lease may have ended at some time, which ends at end.
func (r *referee) mayHaveEnded(end, at time.Time) bool { return !at.Before(end.Add(-r.margin())) }

// releases notes what a client was told when it released the lock. Its phase is ended from
// then on: hearRelease has it lock again if its left is not 0.
func (r *referee) releases(client int, word string) {
	c, other := r.claims[client], r.other(client)
	otherReleased := r.lastReleased == other.name // since c acquired: it may have freed c's lock
	r.lastReleased = c.name

	// The other one got in after the lease had ended: the client had lost the lock. The answer to
	// a repeated release does not count, as the one before may have freed the lock.
	hadLost := other.acquired.After(c.acquired) && other.acquired.After(c.leaseEnds)
	if hadLost && !c.repeats {
		r.testedIf(noticesLoss, word == program.Lost)
		// It locks again, and would get in if it had freed the other's lock.
		r.testedIf(ownerOnly, other.phase == holding && c.left > 1)
		if word == program.Released {
			r.harm(verify.NotTold, c.name+" is told that it has released the lock, and "+other.name+
				" had got it meanwhile")
		}
	}

	// After a fault the first of two releases may have been the one that was executed.
	mayHaveLost := r.struck || c.repeats || r.wrongClock || otherReleased ||
		other.acquired.After(c.acquired) || r.mayHaveEnded(c.leaseEnds, time.Now())
	if word == program.Lost && !mayHaveLost {
		r.harm(verify.ToldOfNoLoss, c.name+" is told that it had lost the lock, within its lease, "+
			"and nobody has had it since")
	}

	c.left--
	c.phase = ended
}

// waits notes a harm if a client that takes the lock has been kept out for longer than
// its patience, in which nothing happened, and nobody holds the lock.
func (r *referee) waits(client int, wait time.Duration) {
	c := r.claims[client]
	if c.phase == acquiring && !r.held() && wait > r.patience {
		r.harm(verify.LockedOut, fmt.Sprintf(
			"%s has waited for %s, while nobody was inside and nothing happened",
			c.name, wait.Round(time.Millisecond)))
	}
}

// compareTokens notes a fencing token, which has to be larger than all before it. That of
// a client that was stopped while it took the lock may be from before others.
func (r *referee) compareTokens(c *claim, token string) {
	fence, err := strconv.ParseInt(token, 10, 64)
	if err != nil { // it has none
		return
	}

	r.testedIf(fenced, r.fence != noFence)
	overtaken := fence < r.fence && !c.leaseBeforePause.IsZero()
	if fence <= r.fence && !overtaken {
		r.harm(verify.FenceRepeats,
			fmt.Sprintf("%s gets fencing token %d after %d", c.name, fence, r.fence))
	}
	r.fence = max(r.fence, fence)
}

// leaseEndedSince reports whether the lease of another client, which holds the lock, has
// ended since some time.
func (r *referee) leaseEndedSince(client int, since time.Time) bool {
	other := r.other(client)
	return other.phase == holding && time.Now().After(other.leaseEnds) && since.Before(other.leaseEnds)
}

// testedIf notes that something has put a promise to the test, if it is so.
func (r *referee) testedIf(promise string, is bool) {
	if is {
		r.tested[promise] = true
	}
}

func (r *referee) harm(h verify.Harm, text string) {
	r.harms = append(r.harms, verify.Violation{Harm: h, Text: text})
}
