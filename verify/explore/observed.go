package explore

import (
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// An observation is what the servers of the locks have seen of a client.
type observation struct {
	Seen                // without what is not of this client alone
	expires []time.Time // by server: when what it has written there expires
	last    time.Time   // when its last request was executed
}

// A stock is what a server holds, and when it expires.
type stock struct {
	data    string
	expires map[string]time.Time
}

func stockOf(m *miniredis.Miniredis) stock {
	now, all := time.Now(), stock{data: m.Dump(), expires: map[string]time.Time{}}
	for _, key := range m.Keys() {
		if ttl := m.TTL(key); ttl > 0 {
			all.expires[key] = now.Add(ttl)
		}
	}
	return all
}

// observe notes what a request of a client does at a server of the locks, which execute has execute it.
func (w *world) observe(r *request, execute func()) {
	if !w.program.Observed || r.client == nobody || r.server.number == 0 && w.program.LockServers > 0 {
		execute()
		return
	}
	w.seeing.Lock() // or its client could have the reply, and look, before what it did is noted
	defer w.seeing.Unlock()
	before := stockOf(r.server.redis)
	execute()
	after := stockOf(r.server.redis)
	w.mu.Lock()
	defer w.mu.Unlock()
	o, now := &w.clients[r.client].observed, time.Now()
	o.Gap, o.last = max(o.Gap, now.Sub(o.last)), now
	waits := slices.ContainsFunc(r.server.parked, func(p *parked) bool { return p.request == r })
	o.Listened = o.Listened || r.subscribed || waits
	o.Later = o.Later || !o.Changed.IsZero() && now.Sub(o.Changed) > w.program.Lease/10
	changed := before.data != after.data
	var ends time.Time
	for key, at := range after.expires {
		was, had := before.expires[key]
		if !had || at.Sub(was).Abs() > time.Millisecond {
			changed = true
			if at.After(ends) {
				ends = at
			}
		}
	}
	if changed {
		o.Changes++
		if o.Changed.IsZero() {
			o.Changed = now
		}
	}
	if !ends.IsZero() {
		for len(o.expires) <= r.server.number {
			o.expires = append(o.expires, time.Time{})
		}
		o.expires[r.server.number] = ends
	}
}

// seen is what Session.Seen tells. The world is locked.
func (w *world) seen(i int) Seen {
	o := w.clients[i].observed
	seen := o.Seen
	seen.Faults, seen.Calm = w.faults, w.last
	// On most of n servers something lasts as long as on the one in the middle, n/2 from the last.
	times := slices.SortedFunc(slices.Values(o.expires), func(a, b time.Time) int { return b.Compare(a) })
	if most := w.program.LockServers / 2; most < len(times) {
		seen.Expires = times[most]
	}
	if len(w.late) > 0 || slices.ContainsFunc(w.clients, func(c *client) bool { return !c.paused.IsZero() }) {
		seen.Calm = time.Time{}
	}
	return seen
}
