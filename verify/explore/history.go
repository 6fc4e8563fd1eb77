package explore

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
)

// A history is all that a client has learned so far, in order: each byte that it received,
// over which of its connections and when, which of them broke, what its clock and Session
// told it, and what it drew. A client is a function of that: where two histories are equal,
// so is what the client does next. Only a digest is kept.
type history struct {
	digest [sha256.Size]byte
	events int // begins seeds by it: a client that is told something more draws something else
}

func (h *history) add(format string, args ...any) {
	event := fmt.Appendf(h.digest[:], format, args...)
	h.digest = sha256.Sum256(event)
	h.events++
}

// learned is how many events its history has.
func (c *client) learned() int { return c.history.events }

// learns adds to a client's history something that it is told. The world is locked.
func (w *world) learns(i int, format string, args ...any) {
	if i == nobody {
		return
	}
	args = append(args, w.since(time.Now()))
	w.clients[i].history.add(format+" at %d", args...)
}

// since is a time of a schedule as a state has it; -1: none.
func (w *world) since(t time.Time) time.Duration {
	if t.IsZero() {
		return -1
	}
	return t.Sub(w.begin)
}

// noteDraws adds to the history of a client that it has drawn something in this step, if it
// has. Who has drawn from math/rand is not known if several clients went on in the step: the
// states of this schedule are equal to none from then on.
func (w *world) noteDraws() {
	w.mu.Lock()
	defer w.mu.Unlock()

	// Who may have drawn: only a client that was told something, or whose timer may have come,
	// has run since the step began. It is found out before a draw is noted below, which would count
	// as something told.
	var moved []int
	for i, c := range w.clients {
		if c.learned() > w.learned[i] || w.timePassed && c.alive() {
			moved = append(moved, i)
		}
	}

	// Reads of crypto/rand are known by client, by its name, which no two clients of a Trial may
	// share, and draws from math/rand only altogether.
	unknown := w.chance.drawn()
	for _, reader := range w.chance.tokens.readers() {
		i := slices.IndexFunc(w.trial.Clients, func(c Client) bool {
			return c.Name == reader
		})
		if i >= 0 {
			w.learns(i, "reads from %d", w.chance.step.seed)
		}
		unknown = unknown || i < 0
	}

	if w.blurred || !unknown {
		return
	}
	if len(moved) == 1 {
		w.learns(moved[0], "draws from %d", w.chance.step.seed)
	} else {
		w.blurred = true
	}
}

// beginStep has what is drawn from now on follow from a step in which something else than a
// delivery strikes, or nothing does.
func (w *world) beginStep(of, which, count int, strikes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timePassed = of == ofTime
	w.learned = w.learned[:0]
	for _, c := range w.clients {
		w.learned = append(w.learned, c.learned())
	}
	w.chance.seed(of, which, count, strikes)
}
