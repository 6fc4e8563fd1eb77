package session

import (
	"context"
	"sync"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

// A term is a span of time in which a session is known to last. Its context is that of
// all leases taken in it. It ends when three quarters of the session's time-out have
// passed since the last request was sent that the servers answered. They count the whole
// time-out, and from a later moment, when they got the request. The quarter is a margin:
// a leader decides which sessions expire, and the worker's server may die before it has
// reported the last requests to it. A lease that is counted from the arrival of a reply,
// which may be delayed on its way, could outlive its session.
type term struct {
	ctx context.Context
	end context.CancelCauseFunc

	mu    sync.Mutex
	proof time.Time     // when the last request was sent that was answered
	lasts time.Duration // from then on
	timer *time.Timer
}

// newTerm begins a term of a session with a time-out, counted from when a request was sent
// that the servers answered. The term may be over at once.
func newTerm(sent time.Time, timeout time.Duration) *term {
	t := &term{proof: sent, lasts: timeout * 3 / 4}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	t.mu.Lock() // the timer may fire before it is assigned: over waits
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(t.lasts, func() {
		t.over()
	})
	t.lapsed()
	return t
}

// proven notes that the servers had the session after a request was sent. It
// returns false if the term is over.
func (t *term) proven(sent time.Time, timeout time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lapsed() {
		return false
	}
	if sent.After(t.proof) {
		t.proof = sent
		t.lasts = timeout * 3 / 4
	}
	return !t.lapsed() // the newer proof may be too old by now, too
}

// over reports whether the term has ended, even if the timer is late.
func (t *term) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lapsed()
}

// lapsed ends the term if it lasts no longer, and otherwise comes back when that may be so.
// The caller holds t.mu.
func (t *term) lapsed() bool {
	left := time.Until(t.proof.Add(t.lasts))
	if left <= 0 {
		t.end(lock.ErrLost)
	}
	if t.ctx.Err() != nil {
		t.timer.Stop()
		return true
	}
	t.timer.Reset(left)
	return false
}

// finish ends the term for another reason.
func (t *term) finish(cause error) {
	t.end(cause)
	t.timer.Stop()
}

// unanswered is when requests were sent that have no answer yet, the oldest
// first: a server answers in order.
type unanswered struct {
	mu   sync.Mutex
	sent []time.Time
}

func (u *unanswered) send() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent = append(u.sent, time.Now())
}

// answer returns when the request was sent that is answered now, and whether there
// are more; ok: there was one.
func (u *unanswered) answer() (sent time.Time, more, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.sent) == 0 {
		return time.Time{}, false, false
	}
	sent = u.sent[0]
	u.sent = u.sent[:copy(u.sent, u.sent[1:])]
	return sent, len(u.sent) > 0, true
}
