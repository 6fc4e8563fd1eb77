package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
)

const usageTimeout = time.Second // bounds one look at what a server has used

// A row should measure Redis, or the contention that the row is about. It measures this process instead if all of this
// holds: the process used fullCores of the cores that it may use, or together with servers on this machine fullCores
// of all cores; no server's main thread, which runs all commands, used fullCores of one core; and purchases spent less
// than mostlyWaiting of their time waiting for locks. With more waiting, faster clients would contend as much.
const (
	fullCores     = 0.9
	mostlyWaiting = 0.5
	othersBusy    = 0.05 // of all cores, by other processes and machines: with more a row has a warning
)

// A meter reads what a server of a row has used. Its connection, which a guard shares, costs the workers nothing.
type meter struct {
	conn *backend.Conn // nil: it cannot be asked
	node string
	here bool // the server shares this machine's cores
}

// A reading is what was used until now, in seconds of processor time; negative: not known.
type reading struct {
	at              time.Time
	servers         []float64      // by meter
	client          float64        // this process
	machine, stolen float64        // all processes of this machine, and other machines
	market          backend.Counts // by all workers
	background      backend.Counts
}

// openMeters connects to the servers of the seeded markets. If one cannot be reached, the row is without its usage.
func (m *measurement) openMeters(ctx context.Context) {
	for _, in := range m.markets {
		if in.Dial == nil || slices.ContainsFunc(m.meters, func(of *meter) bool { return of.node == in.node }) {
			continue
		}
		of := &meter{node: in.node, here: true} // until its address says otherwise
		m.meters = append(m.meters, of)
		dial := in.Dial
		if in.cluster != nil { // the meter stays with this master when the slot moves
			dial = func(ctx context.Context) (*backend.Conn, error) { return backend.Dial(ctx, in.home) }
		}
		conn, err := dial(ctx)
		if err != nil {
			continue
		}
		of.conn = conn
		host, _, _ := net.SplitHostPort(of.conn.Options().Addr)
		of.here = of.conn.Options().Network == "unix" || host == "localhost" || net.ParseIP(host).IsLoopback()
	}
}

func (m *measurement) closeMeters() {
	for _, of := range m.meters {
		if of.conn != nil {
			_ = of.conn.Close() // it has only read
		}
	}
}

// used is the processor time of the server's main thread; -1: it tells nobody, as miniredis, or not this user.
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
	r := reading{at: time.Now(), client: -1, machine: -1, stolen: -1}
	for _, of := range m.meters {
		r.servers = append(r.servers, of.used())
	}
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

// addUsage adds to a row what was used in its window, and warns if the clients or other processes limited the row.
func (m *measurement) addUsage(r *result.Row, t *tally) {
	seconds := m.last.at.Sub(m.first.at).Seconds()
	if r.Seconds == 0 || seconds <= 0 || m.first.client < 0 {
		return
	}
	scale := r.Seconds / seconds // the readings are a little apart from the ends
	known, here := len(m.meters) > 0, false
	var servers, busiest float64
	for i, of := range m.meters {
		used := m.last.servers[i] - m.first.servers[i]
		known = known && m.first.servers[i] >= 0 && used >= 0 // below 0: it was started again
		here = here || of.here
		servers, busiest = servers+used, max(busiest, used/seconds)
	}
	if known {
		r.ServerCPU = new(servers * scale)
	}
	cores, client := float64(runtime.NumCPU()), m.last.client-m.first.client
	r.Cores, r.ClientCPU = runtime.NumCPU(), new(client*scale)
	if r.Elsewhere { // its programs are clients, too, and nobody tells them from others
		client = m.last.machine - m.first.machine - servers
	}
	limited := client/seconds >= fullCores*float64(runtime.GOMAXPROCS(0)) ||
		here && (client+servers)/seconds >= fullCores*cores
	waiting := t.took[lockWaitTime].sum.Seconds() >= mostlyWaiting*t.took[purchaseTime].sum.Seconds()
	if limited && (known || !here) && busiest < fullCores && !waiting {
		r.Warn(result.ClientLimit, client/seconds/cores, "")
	}
	if m.first.machine < 0 {
		return
	}
	others, stolen := m.last.machine-m.first.machine-client, m.last.stolen-m.first.stolen
	if here && known {
		others -= servers
	}
	others = max(0, others)
	// Replicas, lock servers and programs may work on this machine as well, and nobody asks them how much they use.
	if kind, _ := m.Subject.Lock(); m.markets[0].cluster != nil || kind.Needs != lock.NeedsNothing || r.Elsewhere {
		others = 0
	} else {
		r.OthersCPU = new(others * scale)
	}
	r.StolenCPU = new(stolen * scale)
	if share := (others + stolen) / (seconds * cores); share > othersBusy {
		r.Warn(result.Busy, share, "")
	}
}

const keyLooks = time.Second // how often a row checks that its server still has the keys that only the run removes

// silence is how long a server may give no reply in a row of that length; this process itself may be 0.1 s late.
func silence(row time.Duration) time.Duration {
	return min(max(row/10, 100*time.Millisecond), time.Second)
}

// guard asks the server of a market for replies until the load has ended, and notes the longest time in which nothing
// came from it, neither here nor to a worker. It fails the row when keys are gone that only the run removes.
func (m *measurement) guard(ctx context.Context, in *rowMarket, conn *backend.Conn) {
	pause := silence(m.Duration) / 10
	reply := in.replies(ctx, conn)
	replied := make(chan error, 1)
	ask := func() { replied <- reply() }
	go ask()
	look := time.NewTicker(pause)
	defer look.Stop()
	workers := m.in(in)
	heard := int64(-1)     // bytes received, as of the last look
	var last, before int64 // when a look last found more bytes, and when the previous look was
	for {
		select {
		case <-m.window.done:
			<-replied // after which nobody uses conn any more
			return
		case lost := <-replied:
			time.AfterFunc(pause, ask)
			if lost != nil {
				m.window.fail(lost)
			}
		case <-look.C:
			received := conn.Stats.Snapshot().BytesReceived
			now := max(0, m.window.at(time.Now()))
			for _, w := range workers {
				received += w.carried.Snapshot().BytesReceived
			}
			if received != heard {
				heard, last = received, now
			}
			in.silent = max(in.silent, time.Duration(before-last)) // up to the previous look: new replies may be unread
			before = now
		}
	}
}

// replies returns a function that waits for a reply of the server. Every keyLooks it checks that no key is lost.
func (m *rowMarket) replies(ctx context.Context, conn *backend.Conn) func() error {
	looked := time.Now()
	return func() error {
		if time.Since(looked) < keyLooks {
			_ = conn.Ping(ctx).Err() // any answer is one
			return nil
		}
		missing, err := market.MissingKey(ctx, conn.Client, m.Keys, opening(m.point))
		if err == nil { // otherwise the next reply looks again
			looked = time.Now()
		}
		if err != nil || missing == "" {
			return nil
		}
		why := m.lost(ctx, conn)
		if !errors.Is(why, ErrKeysLost) { // it cannot be asked why
			why = m.without(missing)
		}
		return why
	}
}

func (m *rowMarket) without(key string) error {
	return fmt.Errorf("%w: %s is gone or was made anew, and no strategy removes it: "+
		"did somebody flush the database, or remove keys under %s?", ErrKeysLost, key, m.Keys.Prefix())
}
