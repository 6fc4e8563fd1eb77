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
	m.meter = meter{conn: conn, here: address.Network == "unix" || host == "localhost" || net.ParseIP(host).IsLoopback()}
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
		r.market, r.background = r.market.Add(w.carried.Snapshot()), r.background.Add(w.background.Snapshot())
	}
	self := process.Process{Pid: int32(os.Getpid())}
	if own, err := self.Times(); err == nil {
		r.client = own.User + own.System
	}
	// What interrupts take belongs to no process, and is left out.
	if all, err := cpu.Times(false); err == nil && len(all) == 1 {
		r.machine, r.stolen = all[0].User+all[0].Nice+all[0].System, all[0].Steal
	}
	return r
}

// addUsage adds to a row what was used in its window, and warns if the clients or
// other processes limited the row.
func (m *measurement) addUsage(r *result.Row, t *tally) {
	seconds := m.last.at.Sub(m.first.at).Seconds()
	if r.Seconds == 0 || seconds <= 0 || m.first.client < 0 {
		return
	}
	scale := r.Seconds / seconds // the readings are a little apart from the ends
	here := m.meter.here
	server := m.last.server - m.first.server
	known := m.first.server >= 0 && server >= 0 // below 0: it was started again
	if known {
		r.ServerCPU = new(server * scale)
	} else {
		server = 0
	}
	cores, client := float64(runtime.NumCPU()), m.last.client-m.first.client
	r.Cores, r.ClientCPU = runtime.NumCPU(), new(client*scale)
	if r.Elsewhere { // its programs are clients, too, and nobody tells them from others
		client = m.last.machine - m.first.machine - server
	}
	limited := client/seconds >= fullCores*float64(runtime.GOMAXPROCS(0)) ||
		here && (client+server)/seconds >= fullCores*cores
	waiting := t.took[lockWaitTime].sum.Seconds() >= mostlyWaiting*t.took[purchaseTime].sum.Seconds()
	if limited && (known || !here) && server/seconds < fullCores && !waiting {
		r.Warn(result.ClientLimit, client/seconds/cores, "")
	}
	if m.first.machine < 0 {
		return
	}
	others, stolen := m.last.machine-m.first.machine-client, m.last.stolen-m.first.stolen
	if here {
		others -= server
	}
	others = max(0, others)
	// Replicas, lock servers and programs may work on this machine as well, and nobody
	// asks them how much they use.
	kind, _ := m.Subject.Lock()
	if m.market.cluster != nil || kind.Needs != lock.NeedsNothing || r.Elsewhere {
		others = 0
	} else {
		r.OthersCPU = new(others * scale)
	}
	r.StolenCPU = new(stolen * scale)
	if share := (others + stolen) / (seconds * cores); share > othersBusy {
		r.Warn(result.Busy, share, "")
	}
}
