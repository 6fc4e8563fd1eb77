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

// take reports whether there was a ticket left. Its holder makes one purchase.
func (t *tickets) take() bool { return t == nil || t.left.Add(-1) >= 0 }
