package bench

import (
	"context"
	"math"
	"net"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/marketsim/marketsim/market/backend"
)

// usageTimeout bounds one look at what the server has used.
const usageTimeout = time.Second

// usage is what the row's servers, in the order of its nodes, and this process have used since they started.
type usage struct {
	servers []serverUsage
	client  clientUsage
}

// usageReader reads what a server has used. It has a connection of its own, so that it costs the workers nothing.
type usageReader struct {
	conn *backend.Conn // nil: there is no server, or it cannot be asked
	here bool          // the server shares this machine's cores
}

// openUsage connects to the server. Where that fails the row goes without the server's usage.
func openUsage(ctx context.Context, dial func(context.Context) (*backend.Conn, error)) usageReader {
	if dial == nil {
		return usageReader{}
	}
	conn, err := dial(ctx)
	if err != nil {
		return usageReader{}
	}
	o := conn.Options()
	host, _, _ := net.SplitHostPort(o.Addr)
	ip := net.ParseIP(host)
	return usageReader{conn, o.Network == "unix" || host == "localhost" || ip != nil && ip.IsLoopback()}
}

func (u usageReader) close() {
	if u.conn != nil {
		_ = u.conn.Close() // it has only read
	}
}

// serverUsage is what INFO cpu and INFO commandstats say.
type serverUsage struct {
	known     bool
	user, sys float64            // s of the main thread, which runs all commands
	commands  map[string]float64 // us by name
}

// server asks the server. miniredis has neither section, and a user may not be allowed to ask.
func (u usageReader) server() serverUsage {
	if u.conn == nil {
		return serverUsage{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	var used, commands *redis.StringCmd
	_, err := u.conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		used, commands = p.Info(ctx, "cpu"), p.Info(ctx, "commandstats")
		return nil
	})
	if err != nil {
		return serverUsage{}
	}
	s := serverUsage{commands: map[string]float64{}}
	for line := range strings.Lines(used.Val() + commands.Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch command, stats := strings.CutPrefix(name, "cmdstat_"); {
		case stats:
			s.commands[command] = field(value, "usec")
		case name == "used_cpu_user_main_thread":
			s.known = true
			s.user, _ = strconv.ParseFloat(value, 64)
		case name == "used_cpu_sys_main_thread":
			s.sys, _ = strconv.ParseFloat(value, 64)
		}
	}
	return s
}

// field is a number in a list such as "calls=2,usec=15".
func field(list, name string) float64 {
	for part := range strings.SplitSeq(list, ",") {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			v, _ := strconv.ParseFloat(value, 64)
			return v
		}
	}
	return 0
}

// sub is what the server used between b and s. It is not known where the server was started again meanwhile.
func (s serverUsage) sub(b serverUsage) serverUsage {
	d := serverUsage{
		known: s.known && b.known && s.user >= b.user && s.sys >= b.sys, user: s.user - b.user, sys: s.sys - b.sys,
		commands: map[string]float64{},
	}
	for name, us := range s.commands {
		if us > b.commands[name] && name != "info" { // INFO is how this was found out
			d.commands[name] = us - b.commands[name]
		}
	}
	return d
}

// clientUsage is what this process has used. That of the Go runtime is an estimate, and only its parts can be compared
// with each other.
type clientUsage struct {
	at       time.Time
	cpu      float64 // s
	machine  float64 // s, of all processes of this machine; 0: it does not tell
	gc, busy float64 // s of CPU time, as the runtime estimates it
	runnable *metrics.Float64Histogram
}

func readClient() clientUsage {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"},
		{Name: "/cpu/classes/idle:cpu-seconds"},
		{Name: "/sched/latencies:seconds"},
	}
	metrics.Read(samples)
	c := clientUsage{at: time.Now(), runnable: samples[3].Value.Float64Histogram()}
	c.gc = samples[0].Value.Float64()
	c.busy = samples[1].Value.Float64() - samples[2].Value.Float64()
	c.cpu = processCPU(c.busy)
	if all, err := cpu.Times(false); err == nil && len(all) == 1 {
		c.machine = all[0].User + all[0].Nice + all[0].System + all[0].Irq + all[0].Softirq
	}
	return c
}

// clientUse is what this process used in a while.
type clientUse struct {
	seconds float64 // how long that was
	cpu     float64 // s
	cores   float64 // of CPU time a second
	machine float64 // cores that all processes of this machine used
	share   float64 // cores over those that the process may use
	gc      float64 // part of its CPU time
	waitP99 float64 // s: how long goroutines that could run waited for a core
	wait    float64 // the mean of that
}

// sub is what this process used between b and c.
func (c clientUsage) sub(b clientUsage) clientUse {
	took := c.at.Sub(b.at).Seconds()
	if took <= 0 || b.runnable == nil {
		return clientUse{}
	}
	u := clientUse{seconds: took, cpu: c.cpu - b.cpu, machine: (c.machine - b.machine) / took}
	u.cores = u.cpu / took
	u.share = min(1, u.cores/float64(runtime.GOMAXPROCS(0)))
	if busy := c.busy - b.busy; busy > 0 {
		u.gc = min(1, (c.gc-b.gc)/busy)
	}
	u.wait, u.waitP99 = waited(c.runnable, b.runnable)
	return u
}

// waited is the mean of what was added to a histogram of seconds since before, and its 99th percentile. Each value
// counts as the middle of its bucket, and the percentile is the end of one.
func waited(now, before *metrics.Float64Histogram) (mean, p99 float64) {
	var n uint64
	var sum float64
	for i, count := range now.Counts {
		count -= before.Counts[i]
		n += count
		from, to := now.Buckets[i], now.Buckets[i+1]
		if math.IsInf(from, -1) {
			from = 0
		}
		if math.IsInf(to, 1) {
			to = from
		}
		sum += float64(count) * (from + to) / 2
	}
	rest := n / 100 // how many may be larger than the percentile
	for i := len(now.Counts) - 1; i >= 0 && n > 0; i-- {
		count := now.Counts[i] - before.Counts[i]
		if count > rest {
			p99 = now.Buckets[i+1]
			if math.IsInf(p99, 1) {
				p99 = now.Buckets[i]
			}
			break
		}
		rest -= count
	}
	if n > 0 {
		mean = sum / float64(n)
	}
	return mean, p99
}
