package bench

import "sync/atomic"

// tickets bounds how many purchases are made, over all buyers. Nil bounds nothing.
type tickets struct{ left atomic.Int64 }

func newTickets(n int64) *tickets {
	if n == 0 {
		return nil
	}
	t := new(tickets)
	t.left.Store(n)
	return t
}

// take reports whether there was a ticket left. Its holder makes one purchase, or gives the ticket back.
func (t *tickets) take() bool {
	if t == nil {
		return true
	}
	for {
		left := t.left.Load()
		if left <= 0 {
			return false
		}
		if t.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

// giveBack leaves a purchase to the others.
func (t *tickets) giveBack() {
	if t != nil {
		t.left.Add(1)
	}
}
