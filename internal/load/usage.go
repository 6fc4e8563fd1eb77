package load

import (
	"context"
	"net"
	"os"
	"runtime"
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
// may use, or together with a server on this machine fullCores of all; the server's main
// thread, which runs all commands, did not use fullCores of one; and purchases spent
// less than mostlyWaiting of their time waiting for locks. With more waiting, faster
// clients would contend as much.
const (
	fullCores     = 0.9
	mostlyWaiting = 0.5
	// Of all cores, by other processes and machines: with more a row has a warning.
	othersBusy = 0.05
)

// A meter reads what the server of a row has used. Its connection, which the guard
// shares, costs the workers nothing.
type meter struct {
	conn *redisconn.Conn // nil: it cannot be asked
	here bool            // the server shares this machine's cores
}

// A reading is what was used until now, in seconds of processor time; negative: not known.
type reading struct {
	at              time.Time
	server          float64          // the main thread of the market's
	client          float64          // this process
	programs        float64          // those of --exec, with all that they have started
	machine, stolen float64          // all processes of this machine, and other machines
	market          redisconn.Counts // by all workers
	background      redisconn.Counts
}

// openMeter connects to the server of the seeded market. If it cannot be reached,
// the row is without its usage.
func (m *measurement) openMeter(ctx context.Context) {
	if m.Servers.Market.IsZero() {
		return
	}

	m.meter.here = true // until its address says otherwise
	dialer := m.Servers.Market
	if m.market.cluster != nil { // the meter stays with this master when the slot moves
		dialer = redisconn.To(m.market.home)
	}
	conn, err := dialer.Dial(ctx)
	if err != nil {
		return
	}

	address := conn.Options()
	host, _, _ := net.SplitHostPort(address.Addr)
	here := address.Network == "unix" || host == "localhost" || net.ParseIP(host).IsLoopback()
	m.meter = meter{conn: conn, here: here}
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

func (m *measurement) read() reading {
	r := reading{at: time.Now(), server: m.meter.used(), client: -1, machine: -1, stolen: -1}
	for _, w := range m.all() {
		r.market = r.market.Add(w.carried.Snapshot())
		r.background = r.background.Add(w.background.Snapshot())
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
	server, client, machine, stolen float64 // processor time
	serverKnown                     bool    // otherwise server is 0
	clientKnown                     bool    // otherwise programs of --exec are not in client
}

// since is what was used after a reading.
func (r reading) since(first reading) usage {
	u := usage{
		seconds: r.at.Sub(first.at).Seconds(),
		server:  r.server - first.server,
		client:  r.client - first.client + r.programs - first.programs,
		machine: r.machine - first.machine,
		stolen:  r.stolen - first.stolen,
	}

	u.serverKnown = first.server >= 0 && u.server >= 0 // below 0: it was started again
	if !u.serverKnown {
		u.server = 0
	}

	u.clientKnown = first.programs >= 0 && r.programs >= 0
	if !u.clientKnown {
		u.client = r.client - first.client
	}
	return u
}

// addUsage adds to a row what was used in its window, and warns if the clients or
// other processes limited the row.
func (m *measurement) addUsage(r *result.Row, t *tally) {
	used := m.last.since(m.first)
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

	if !used.clientKnown { // nobody tells the programs, which are clients, too, from others
		used.client = used.machine - used.server
	}
	if m.limitedByClients(used, t) {
		r.Warn(result.ClientLimit, used.client/used.seconds/cores, "")
	}

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

// limitedByClients reports whether the row measures its clients: see fullCores.
func (m *measurement) limitedByClients(used usage, t *tally) bool {
	full := func(spent, cores float64) bool { return spent/used.seconds >= fullCores*cores }
	here := m.meter.here

	cores := runtime.GOMAXPROCS(0)
	if m.Subject.Elsewhere() { // programs use those that this process leaves
		cores = runtime.NumCPU()
	}
	busy := full(used.client, float64(cores)) ||
		here && full(used.client+used.server, float64(runtime.NumCPU()))
	serverHasTime := (used.serverKnown || !here) && !full(used.server, 1)
	waiting := t.took[lockWaitTime].sum.Seconds() >= mostlyWaiting*t.took[purchaseTime].sum.Seconds()
	return busy && serverHasTime && !waiting
}

// usedByOthers is what processes of this machine used that have no part in the row. It is
// not known where replicas or lock servers may work on this machine as well, which nobody
// asks how much they use, nor where programs cannot be asked.
func (m *measurement) usedByOthers(used usage) (others float64, known bool) {
	kind, _ := m.Subject.Lock()
	if m.market.cluster != nil || kind.Needs != lock.NeedsNothing || !used.clientKnown {
		return 0, false
	}
	others = used.machine - used.client
	if m.meter.here {
		others -= used.server
	}
	return max(0, others), true
}
