package backend

import (
	"context"
	"sync"
	"time"
)

// awaitMaster bounds how long a connection with a [Route] looks for a master that serves: longer than a cluster with
// default settings takes to replace one that died.
const awaitMaster = 30 * time.Second

// lookAgain is how long a connection waits before it tries once more what was refused because of a redirect, or looks for
// the master again.
const lookAgain = 10 * time.Millisecond

// A Route says where the master is that serves a market, also after another server has taken its place: on Redis Cluster
// the master of a slot. A plain server's route never changes. All connections to a
// market should share one, so that what one of them learns the next ones know. Its methods are safe for concurrent use.
type Route struct {
	find    func(context.Context) (Target, error) // nil: it never changes
	cluster *Cluster                              // nil: the master is of none

	mu      sync.Mutex
	current Target
	known   bool // current is what was found last
	doubted bool // a connection to current has failed since
	asked   time.Time
	changes []Change
}

// A Change is a master that took another's place.
type Change struct {
	At       time.Time // when a client learned of it
	From, To string    // addresses, host:port
}

func fixedRoute(t Target) *Route { return &Route{current: t, known: true} }

// newRoute returns a route whose master find finds.
func newRoute(find func(context.Context) (Target, error)) *Route { return &Route{find: find} }

// Dial connects to the master, with the rules and errors of [Dial]. The connection follows: when the server refuses a
// command because another one is responsible (MOVED, ASK, READONLY), or because nobody is at the moment (TRYAGAIN,
// CLUSTERDOWN, LOADING, NOREPLICAS), the command was not executed, and is sent again to whoever is, for up to 30
// seconds. Only a MULTI/EXEC that was discarded, and a command after a WATCH, are not: [Redirected] tells the caller, who
// has to begin anew. A connection that breaks is made again to the master there is then; what was on its way is of
// unknown outcome as ever.
func (r *Route) Dial(ctx context.Context) (*Conn, error) { return dialRoute(ctx, r) }

// Follows reports whether another master may take the place of the one there is.
func (r *Route) Follows() bool { return r.find != nil }

// Cluster is the Redis Cluster that the master belongs to; nil: it belongs to none.
func (r *Route) Cluster() *Cluster { return r.cluster }

// Target is where the master is. It asks if nobody knows, or if a connection to the last one has failed.
func (r *Route) Target(ctx context.Context) (Target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known && (!r.doubted || time.Since(r.asked) < lookAgain) {
		return r.current, nil
	}
	found, err := r.find(ctx)
	r.asked = time.Now()
	if err != nil {
		if r.known { // it may serve again before anybody says so
			return r.current, nil
		}
		return Target{}, err
	}
	r.settle(found)
	return found, nil
}

// Ask is Target, but asks although nobody doubts the last.
func (r *Route) Ask(ctx context.Context) (Target, error) {
	r.mu.Lock()
	r.doubted, r.asked = r.Follows(), time.Time{}
	r.mu.Unlock()
	return r.Target(ctx)
}

// Changes are the masters that took another's place since the first was found, in order.
func (r *Route) Changes() []Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Change(nil), r.changes...)
}

// doubt makes the next Target ask, unless somebody has found another master than the one that was tried.
func (r *Route) doubt(tried Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find != nil && r.current.Addr == tried.Addr {
		r.doubted = true
	}
}

// moved notes that the master that was tried says that the one at addr is responsible.
func (r *Route) moved(tried Target, addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find == nil || r.current.Addr != tried.Addr {
		return
	}
	to := tried
	to.Addr = addr
	r.settle(to)
}

// settle takes what was found for the master. The caller holds the lock.
func (r *Route) settle(found Target) {
	if r.known && found.Addr != r.current.Addr {
		r.changes = append(r.changes, Change{At: time.Now(), From: r.current.Addr, To: found.Addr})
	}
	r.current, r.known, r.doubted = found, true, false
}
