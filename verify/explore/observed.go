package explore

import (
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// An observation is what the servers of the locks have seen of a client.
type observation struct {
	requests, changes int
	expires           []time.Time // by server: when what it has written there expires
	last              time.Time   // when its last request was executed
	mark              mark
}

// A mark is what has been seen since the last call of Session.Waits.
type mark struct {
	gap      time.Duration
	changed  time.Time
	later    bool
	listened bool
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
	o.mark.gap, o.last = max(o.mark.gap, now.Sub(o.last)), now
	waits := slices.ContainsFunc(r.server.parked, func(p *parked) bool { return p.request == r })
	o.mark.listened = o.mark.listened || r.subscribed || waits
	o.mark.later = o.mark.later || !o.mark.changed.IsZero() && now.Sub(o.mark.changed) > w.program.Lease/10
	o.requests++
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
		o.changes++
		if o.mark.changed.IsZero() {
			o.mark.changed = now
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
func (w *world) seen(client int) Seen {
	c := w.clients[client]
	o := c.observed
	seen := Seen{
		Requests: o.requests, Changes: o.changes, Faults: w.faults, Calm: w.last,
		Gap: o.mark.gap, Changed: o.mark.changed, Later: o.mark.later, Listened: o.mark.listened,
	}
	// On most of n servers something lasts as long as on the one in the middle, n/2 from the last.
	times := slices.SortedFunc(slices.Values(o.expires), func(a, b time.Time) int { return b.Compare(a) })
	if most := w.program.LockServers / 2; most < len(times) {
		seen.Expires = times[most]
	}
	for _, other := range w.clients {
		if !other.paused.IsZero() {
			seen.Calm = time.Time{}
		}
	}
	if len(w.late) > 0 {
		seen.Calm = time.Time{}
	}
	return seen
}
