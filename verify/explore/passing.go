package explore

import (
	"slices"
	"time"

	"github.com/marketsim/marketsim/verify"
)

// expire answers requests whose time-out in a server has come, notes which clients have given
// up waiting for a late request, and loses requests that are too old to arrive.
func (w *world) expire() {
	answered := false
	for _, s := range w.servers {
		answered = s.expire() || answered
	}
	if answered { // who waited goes on before anything is chosen
		// 1: wait may begin a step at the same instant, with 0, and so with other seeds.
		w.beginStep(ofTime, int(time.Since(w.begin)), 1, false)
		w.settle()
		w.noteDraws()
	}

	now := time.Now()
	w.late = slices.DeleteFunc(w.late, func(r *request) bool {
		if r.gaveUp.IsZero() && r.Broken() {
			r.gaveUp = now
		}
		lost := !r.gaveUp.IsZero() && now.Sub(r.gaveUp) >= w.program.staysLate()
		if lost {
			w.draw(verify.Event{Client: r.client, Does: "*" + w.short(r.commands[0]) + "... is lost*"}, nil)
		}
		return lost
	})
}

// staysLate is how long after its client has given up a late request is lost.
func (p Program) staysLate() time.Duration { return 2 * max(p.Lease, p.Reply) }

// wait lets time go on until a client sends something or ends, or until something is due:
// see due. It reports false if nothing has happened for so long that nothing will.
func (w *world) wait(leases time.Duration) bool {
	until := w.due(leases)
	select {
	case <-w.arrived: // which has been looked at already
	default:
	}
	w.beginStep(ofTime, int(time.Since(w.begin)), 0, false)
	w.rest(func() {
		w.arrives(time.Until(until))
	})
	w.noteDraws()
	w.running = nobody
	return time.Now().Before(w.last.Add(patience))
}

// arrives waits until something arrives, or until this long has passed, and reports which.
func (w *world) arrives(within time.Duration) bool {
	select {
	case <-w.arrived:
		return true
	case <-time.After(within):
		return false
	}
}

// due is when a client has been paused for this many leases, a late request is
// lost, or a server's wait ends, or else when patience ends.
func (w *world) due(leases time.Duration) time.Time {
	until := w.last.Add(patience)
	atMost := func(since time.Time, after time.Duration) {
		if at := since.Add(after); !since.IsZero() && at.Before(until) {
			until = at
		}
	}

	for _, c := range w.clients {
		atMost(c.paused, leases*w.program.Lease)
	}
	for _, r := range w.late {
		atMost(r.gaveUp, w.program.staysLate())
	}
	for _, s := range w.servers {
		for _, p := range s.parked {
			atMost(p.until, 0)
		}
	}
	return until
}
