package load

import (
	"context"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/strategies/lock"
)

const usageTimeout = time.Second // bounds one look at what a server has used

// A row should measure Redis, or the contention that the row is about. It measures this
// process instead if all of this holds: the process used fullCores of the cores that it
// may use, or together with servers on this machine fullCores of all; no server's main
// thread, which runs all commands, used fullCores of one; and purchases spent
// less than mostlyWaiting of their time waiting for locks. With more waiting, faster
// clients would contend as much.
const (
	fullCores     = 0.9
	mostlyWaiting = 0.5
	// Of all cores, by other processes and machines: with more a row has a warning.
	othersBusy = 0.05
)

// A meter reads what a server of a row has used. Its connection, which guards
// share, costs the workers nothing.
type meter struct {
	addr string          // of a master of a cluster; empty: the server is none
	conn *redisconn.Conn // nil: it cannot be asked
	here bool            // the server shares this machine's cores
}

// A reading is what was used until now, in seconds of processor time; negative: not known.
type reading struct {
	at              time.Time
	servers         []float64          // their main threads, by meter
	client          float64            // this process
	programs        float64            // those of --exec, with all that they have started
	machine, stolen float64            // all processes of this machine, and other machines
	market          redisconn.Counts   // by all workers
	byServer        []redisconn.Counts // by the workers of the markets on each, by meter
	background      redisconn.Counts
}

// openMeters connects to the servers of the seeded markets. If one cannot be reached,
// the row is without its usage. Without a cluster the markets lie on one server, and share
// a meter whose address is empty.
func (m *measurement) openMeters(ctx context.Context) {
	for _, in := range m.markets {
		if in.Servers.Market.IsZero() {
			continue
		}
		at := in.home.Addr
		i := slices.IndexFunc(m.meters, func(of *meter) bool { return of.addr == at })
		if i < 0 {
			i = len(m.meters)
			m.meters = append(m.meters, in.openMeter(ctx))
		}
		in.server = m.meters[i]
	}
}

func (m *rowMarket) openMeter(ctx context.Context) *meter {
	of := &meter{addr: m.home.Addr, here: true} // until its address says otherwise
	dialer := m.Servers.Market
	if m.cluster != nil { // the meter stays with this master when the slot moves
		dialer = redisconn.To(m.home)
	}
	conn, err := dialer.Dial(ctx)
	if err != nil {
		return of
	}

	address := conn.Options()
	host, _, _ := net.SplitHostPort(address.Addr)
	of.conn = conn
	of.here = address.Network == "unix" || host == "localhost" || net.ParseIP(host).IsLoopback()
	return of
}

func (m *measurement) closeMeters() {
	for _, of := range m.meters {
		if of.conn != nil {
			_ = of.conn.Close() // it has only read
		}
	}
}

// used is the processor time of the server's main thread; -1: it tells nobody, as
// miniredis, or not this user.
func (m *meter) used() float64 {
	if m.conn == nil {
		return -1
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	fields, err := m.conn.InfoFields(ctx, "cpu")
	user, notUser := strconv.ParseFloat(fields["used_cpu_user_main_thread"], 64)
	sys, notSys := strconv.ParseFloat(fields["used_cpu_sys_main_thread"], 64)
	if err != nil || notUser != nil || notSys != nil {
		return -1
	}
	return user + sys
}

// read reads what everybody has used until now, also while the workers work.
func (m *measurement) read() reading {
	r := reading{at: time.Now(), client: -1, machine: -1, stolen: -1}
	for _, of := range m.meters {
		r.servers = append(r.servers, of.used())
		r.byServer = append(r.byServer, redisconn.Counts{})
	}
	for _, w := range m.all() {
		carried := w.carried.Snapshot()
		r.market = r.market.Add(carried)
		r.background = r.background.Add(w.background.Snapshot())
		if i := slices.Index(m.meters, w.market.server); i >= 0 {
			r.byServer[i] = r.byServer[i].Add(carried)
		}
	}

	self := process.Process{Pid: int32(os.Getpid())}
	if own, err := self.Times(); err == nil {
		r.client = own.User + own.System
	}
	// What interrupts take belongs to no process, and is left out.
	if all, err := cpu.Times(false); err == nil && len(all) == 1 {
		r.machine, r.stolen = all[0].User+all[0].Nice+all[0].System, all[0].Steal
	}
	r.programs = m.usedByPrograms()
	return r
}

// usedByPrograms is the processor time of the programs of --exec; -1: not known.
func (m *measurement) usedByPrograms() (seconds float64) {
	for _, w := range m.all() {
		program, is := w.purchaser.(interface{ CPU() (time.Duration, bool) })
		if !is {
			continue
		}
		used, known := program.CPU()
		if !known {
			return -1
		}
		seconds += used.Seconds()
	}
	return seconds
}

// usage is what was used between two readings.
type usage struct {
	seconds                         float64 // between the readings
	server, client, machine, stolen float64 // processor time; server is of all servers
	busiest                         float64 // of the server that used most
	serverKnown                     bool    // otherwise one did not tell, and server is 0
	clientKnown                     bool    // otherwise programs of --exec are not in client
}

// since is what was used after a reading.
func (r reading) since(first reading) usage {
	u := usage{
		seconds: r.at.Sub(first.at).Seconds(),
		client:  r.client - first.client + r.programs - first.programs,
		machine: r.machine - first.machine,
		stolen:  r.stolen - first.stolen,
	}

	// Of several servers a sum without one of them would be wrong, and is left out.
	u.serverKnown = len(r.servers) > 0
	for i := range r.servers {
		used, known := r.serverSince(first, i)
		u.serverKnown = u.serverKnown && known
		u.server += used
		u.busiest = max(u.busiest, used)
	}
	if !u.serverKnown {
		// The busiest, too: limitedByClients takes a server elsewhere that is not known to have time.
		u.server, u.busiest = 0, 0
	}

	u.clientKnown = first.programs >= 0 && r.programs >= 0
	if !u.clientKnown {
		u.client = r.client - first.client
	}
	return u
}

// serverSince is what the main thread of a server used after a reading, if that is known.
func (r reading) serverSince(first reading, i int) (seconds float64, known bool) {
	if i >= len(first.servers) || first.servers[i] < 0 {
		return 0, false
	}
	used := r.servers[i] - first.servers[i]
	return used, used >= 0 // below 0: it was started again
}

// addUsage adds to a row what was used in its window, and warns if the clients or
// other processes limited the row.
func (m *measurement) addUsage(r *result.Row, t *tally) {
	used := m.last.since(m.first)
	// No load was measured, or the system does not tell what this process has used.
	if r.Seconds == 0 || used.seconds <= 0 || m.first.client < 0 {
		return
	}

	scale := r.Seconds / used.seconds // the readings are a little apart from the ends
	cores := float64(runtime.NumCPU())
	r.Cores = runtime.NumCPU()
	if used.clientKnown {
		r.ClientCPU = new(used.client * scale)
	}
	if used.serverKnown {
		r.ServerCPU = new(used.server * scale)
	}

	// The programs of --exec are clients, too. Where they cannot be told from other processes, all
	// that the machine has used, less the servers, counts as theirs.
	if !used.clientKnown {
		used.client = used.machine - used.server
	}
	if m.limitedByClients(used, t) {
		r.Warn(result.ClientLimit, used.client/used.seconds/cores, "")
	}

	// What follows needs the times of the whole machine.
	if m.first.machine < 0 {
		return
	}
	others, known := m.usedByOthers(used)
	if known {
		r.OthersCPU = new(others * scale)
	}
	r.StolenCPU = new(used.stolen * scale)
	if share := (others + used.stolen) / (used.seconds * cores); share > othersBusy {
		r.Warn(result.Busy, share, "")
	}
}

// addMasters adds to a row what each master did, if its markets lie on several.
func (m *measurement) addMasters(r *result.Row) {
	between := m.last.since(m.first).seconds
	if len(m.meters) < 2 || r.Seconds == 0 || between <= 0 {
		return
	}

	for i, of := range m.meters {
		master := result.Master{Address: of.addr, Here: of.here}
		for _, in := range m.markets {
			if in.server == of {
				master.Markets++
			}
		}
		for _, w := range m.buyers {
			if w.market.server == of {
				master.Bought += w.tally.count[bought]
			}
		}

		if cpu, known := m.last.serverSince(m.first, i); known {
			master.CPU = new(cpu * r.Seconds / between) // as in addUsage
		}
		// Programs connect by themselves: Row.MarshalJSON leaves Commands out of the row, too.
		if !m.sharesConnections() && !m.Subject.Elsewhere() {
			sent := carried(m.last.byServer[i].Sub(m.first.byServer[i]))
			master.Commands = &sent.Commands
		}
		r.Masters = append(r.Masters, master)
	}
}

// serversHere reports whether a server of the row shares this machine's cores.
func (m *measurement) serversHere() bool {
	return slices.ContainsFunc(m.meters, func(of *meter) bool { return of.here })
}

// limitedByClients reports whether the row measures its clients: see fullCores.
func (m *measurement) limitedByClients(used usage, t *tally) bool {
	full := func(spent, cores float64) bool { return spent/used.seconds >= fullCores*cores }
	here := m.serversHere()

	cores := runtime.GOMAXPROCS(0)
	if m.Subject.Elsewhere() { // programs use those that this process leaves
		cores = runtime.NumCPU()
	}
	busy := full(used.client, float64(cores)) ||
		here && full(used.client+used.server, float64(runtime.NumCPU()))
	// A server elsewhere whose use is not known is taken to have time. One here is not, because it
	// may be what fills the cores.
	serverHasTime := (used.serverKnown || !here) && !full(used.busiest, 1)
	waiting := t.took[lockWaitTime].sum.Seconds() >= mostlyWaiting*t.took[purchaseTime].sum.Seconds()
	return busy && serverHasTime && !waiting
}

// usedByOthers is what processes of this machine used that have no part in the row. It is
// not known where replicas or lock servers may work on this machine as well, which nobody
// asks how much they use, nor where programs cannot be asked.
func (m *measurement) usedByOthers(used usage) (others float64, known bool) {
	kind, _ := m.Subject.Lock()
	if m.markets[0].cluster != nil || kind.Needs != lock.NeedsNothing || !used.clientKnown {
		return 0, false
	}
	others = used.machine - used.client
	if m.serversHere() {
		others -= used.server
	}
	return max(0, others), true
}
