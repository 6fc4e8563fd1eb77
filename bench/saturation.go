package bench

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// A row's number should be Redis's, or that of the contention that the row is about. It is this process's where three
// things hold together:
//
//   - The cores are used up: this process has had fullCores of those it may use; or, together with the servers on the same
//     machine, of all; or its workers spent mostWaiting of their time waiting for one, whoever used it.
//   - The server had CPU time to spare: its main thread, which runs all commands, used less than busyServer of a core.
//     On two cores that a client and a server share, both are busy when the server is at its limit, and the row is not
//     blamed on the client.
//   - A purchase did not spend mostContended of its time waiting for locks and in tries that were thrown away. Faster
//     clients would contend as much.
//
// Where the server runs on this machine and does not tell its CPU time, as miniredis in this process, nothing is
// judged.
const (
	fullCores     = 0.9
	mostWaiting   = 0.5
	busyServer    = 0.9
	mostContended = 0.5
)

// load is what saturated judges by.
type load struct {
	clientCores, mayUse float64 // that this process used, and may use
	serverCores         float64 // of the server's main thread, the busiest one's of several
	otherServers        float64 // cores of the others, and of replicas that run here, too
	serverKnown, here   bool    // the servers tell their CPU time; they are on this machine
	machine             float64 // cores
	waiting             float64 // part of the workers' time in which they waited for a core
	contended           float64 // part of a purchase's time
}

// saturated reports whether a row's number is this process's.
func (l load) saturated() bool {
	if l.here && !l.serverKnown || l.serverCores >= busyServer || l.contended >= mostContended {
		return false
	}
	return l.clientCores >= fullCores*l.mayUse || l.inUse() >= fullCores*l.machine || l.waiting >= mostWaiting
}

// inUse is how many of this machine's cores were in use for the row.
func (l load) inUse() float64 {
	if !l.here {
		return l.clientCores
	}
	return l.clientCores + l.serverCores + l.otherServers
}

// judgeClient says how this process fared, and whether the row's number is its own.
func (m *measurement) judgeClient(r *result.Row, servers []serverUsage, client clientUse) {
	if r.Seconds <= 0 {
		return
	}
	r.Client = &result.Client{CPU: client.share, GC: client.gc, SchedulerP99MS: client.waitP99 * 1000}
	for _, w := range m.All() {
		r.Client.RecorderWaits += w.recorder.blocked
	}
	if r.TimeMS == nil {
		return
	}
	takes := r.WaitMS.Mean
	if r.Open != nil { // and not what an order waits for a buyer
		takes = r.Open.ServiceMS.Mean
	}
	all := together(servers)
	l := load{
		clientCores: client.cores, mayUse: float64(runtime.GOMAXPROCS(0)), machine: float64(runtime.NumCPU()),
		serverKnown: all.known, here: slices.ContainsFunc(m.nodes, func(n *node) bool { return n.here }),
		contended: (r.TimeMS.LockWait + r.TimeMS.Thrown) / takes,
	}
	for _, s := range servers {
		l.serverCores = max(l.serverCores, (s.user+s.sys)/client.seconds)
	}
	l.otherServers = (all.user+all.sys)/client.seconds - l.serverCores
	several := m.markets[0].cluster != nil
	if several { // replicas may work here as well, and nobody asks them
		l.otherServers = max(l.otherServers, client.machine-client.cores-l.serverCores)
	}
	// A round trip ends with a worker that can go on, and waits for a core.
	trips := float64(m.stopped.market.Sub(m.warmed.market).RoundTrips)
	l.waiting = client.wait * trips / (float64(r.Sellers+r.Buyers+r.Browsers) * client.seconds)
	switch r.Client.Saturated = l.saturated(); {
	case r.Client.Saturated && several && l.here:
		r.Warnings = append(r.Warnings, fmt.Sprintf("this machine was the limit, and not Redis or contention: %.0f%% of its "+
			"cores were in use, and the busiest master used %.0f%% of one; measure with servers and clients on machines of "+
			"their own", 100*min(1, l.inUse()/l.machine), 100*l.serverCores))
	case r.Client.Saturated:
		r.Warnings = append(r.Warnings, fmt.Sprintf("the client was the limit, and not Redis or contention: it used %.0f%% "+
			"of its cores, the server's main thread %.0f%% of one; measure from another machine, or with fewer workers",
			100*client.share, 100*l.serverCores))
	}
}
