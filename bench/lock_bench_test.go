package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/suite/subjects"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// BenchmarkLock measures acquiring and releasing every lock, alone: each worker its own
// key, and all workers one key. An iteration is one acquisition with its release. All
// locks that poll do so every millisecond. Metrics:
//
//	ops/s       acquisitions a second, over all workers
//	p99-ms      of acquire and release together
//	cmds/op     Redis commands an acquisition and release, polling and renewal included, on all connections
//	trips/op    round trips, likewise
//	waiting/op  of cmds/op, those beyond what one worker alone needs: sent while waiting
//	fewest, most  acquisitions of a worker, as a share of an equal share
//	lost/op     locks that somebody else had released meanwhile, for a lock that does not promise to be exclusive
//	jain        Jain's fairness index of the workers' acquisitions: 1 is equal, 1/n is one worker only
//
// ZooKeeper and etcd are asked over connections that are not counted.
func BenchmarkLock(b *testing.B) {
	server := subjects.StartServer(b)
	for _, kind := range catalogue.Full().Locks {
		if len(kind.NewerCommands(nil)) > 0 {
			b.Logf("lock %s is left out: it needs a newer server", kind.Name)
			continue
		}

		servers, masters, ok := serversFor(b, kind)
		if !ok {
			continue
		}

		for _, key := range []string{"own", "one"} {
			for _, workers := range []int{1, 10, 50} {
				b.Run(fmt.Sprintf("lock=%s/key=%s/workers=%d", kind.Name, key, workers), func(b *testing.B) {
					l := &lockLoad{
						server: server, kind: kind, servers: servers, masters: masters,
						keys: testkit.Keys(b), own: key == "own",
					}
					l.run(b, workers)
				})
			}
		}
	}
}

// lockLoad is a number of workers that acquire and release.
type lockLoad struct {
	server  *backend.Server
	kind    lock.Kind
	servers lock.Servers
	masters []redisconn.Target // of Redlock
	keys    market.Keys
	own     bool

	mu    sync.Mutex
	conns []*redisconn.Conn
}

// competitor is one worker.
type competitor struct {
	locker lock.Locker
	name   string
	waits  *hdrhistogram.Histogram
	count  int64
	lost   int64 // locks that were not held any more when they were released
}

func (l *lockLoad) run(b *testing.B, count int) {
	process := new(lock.ProcessState)
	workers := make([]*competitor, count)
	for i := range workers {
		workers[i] = l.open(b, process, i)
		workers[i].operate(b) // connections, scripts and sessions are there before the clock starts
	}
	alone := l.traffic()
	workers[0].operate(b)
	perOperation := l.traffic().Sub(alone)

	before := l.traffic()
	for _, c := range workers {
		c.count, c.lost = 0, 0
		c.waits.Reset()
	}
	b.ResetTimer()
	compete(b, workers)
	b.StopTimer()
	l.report(b, workers, l.traffic().Sub(before), perOperation)

	for _, c := range workers {
		if closer, ok := c.locker.(io.Closer); ok {
			if err := closer.Close(); err != nil {
				b.Error(err)
			}
		}
	}
	if err := process.Close(); err != nil {
		b.Error(err)
	}
	l.close(b)
}

// compete makes b.N acquisitions, whoever gets them.
func compete(b *testing.B, workers []*competitor) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wait sync.WaitGroup
	for _, c := range workers {
		wait.Go(func() {
			for left.Add(-1) >= 0 {
				c.operate(b)
			}
		})
	}
	wait.Wait()
}

// operate acquires and releases once.
func (c *competitor) operate(b *testing.B) {
	start := time.Now()
	lease, err := c.locker.Acquire(context.Background(), c.name)
	if err == nil {
		err = lease.Release(context.Background())
	}

	if errors.Is(err, lock.ErrLost) && !c.locker.Promises().Exclusive {
		c.lost++ // as its doc comment says
		err = nil
	}
	if err != nil {
		b.Error(err)
		return
	}

	c.count++
	_ = c.waits.RecordValue(time.Since(start).Microseconds())
}

// open opens a worker's locker. Its parameters are the defaults, with a poll of
// 1 ms where there is one.
func (l *lockLoad) open(b *testing.B, process *lock.ProcessState, i int) *competitor {
	conn := testkit.Must(l.dial(context.Background()))(b)
	params := param.Values{}
	for _, p := range l.kind.Params {
		if p.Name == "poll" {
			params["poll"] = time.Millisecond.String()
		}
	}

	// All workers have these servers: the first to be opened adds them.
	for _, target := range l.masters {
		dial := l.dialer(target)
		l.servers.Masters = append(l.servers.Masters, lock.Master{NewClient: dial, Background: dial})
	}
	l.masters = nil

	locker, err := l.kind.New(lock.Env{
		Redis:     conn,
		NewClient: l.dial,
		Key:       l.keys.Lock,
		Params:    params,
		Servers:   l.servers,
		Process:   process,
	})
	if err != nil {
		b.Fatal(err)
	}

	name := "contended"
	if l.own {
		name = fmt.Sprint("own-", i)
	}

	return &competitor{locker: locker, name: name, waits: hdrhistogram.New(1, 60_000_000, 3)}
}

// dial opens a connection whose traffic is counted.
func (l *lockLoad) dial(ctx context.Context) (*redis.Client, error) {
	return l.dialer(l.server.Target)(ctx)
}

func (l *lockLoad) dialer(target redisconn.Target) func(context.Context) (*redis.Client, error) {
	return func(ctx context.Context) (*redis.Client, error) {
		conn, err := redisconn.To(target).Dial(ctx)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, conn)
		return conn.Client, nil
	}
}

func (l *lockLoad) traffic() (sum redisconn.Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		n := c.Stats.Snapshot()
		sum.Commands += n.Commands
		sum.RoundTrips += n.RoundTrips
	}
	return sum
}

// close removes the keys and closes the connections that are still open.
func (l *lockLoad) close(b *testing.B) {
	conn := testkit.Must(l.server.Dial(context.Background()))(b)
	defer conn.Close()
	for i := range 50 {
		conn.Unlink(context.Background(), l.kind.AllKeys(l.keys.Lock(fmt.Sprint("own-", i)))...)
	}
	conn.Unlink(context.Background(), l.kind.AllKeys(l.keys.Lock("contended"))...)
	for _, c := range l.conns {
		_ = c.Close() // a locker may have closed the ones it opened
	}
}

// serversFor starts what a lock needs besides Redis; false if this machine
// cannot and need not.
func serversFor(b *testing.B, kind lock.Kind) (s lock.Servers, five []redisconn.Target, ok bool) {
	locks, err := servers.ForLock(b.Context(), servers.Addresses{}, string(kind.Needs))
	if errors.Is(err, process.ErrUnavailable) && !testkit.Required(string(kind.Needs)) {
		b.Logf("lock %s is left out: %v", kind.Name, err)
		return s, nil, false
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { locks.Close() })
	return lock.Servers{ZooKeeper: locks.ZooKeeper, Etcd: locks.Etcd}, locks.Masters, true
}

// report turns what was counted into metrics.
func (l *lockLoad) report(b *testing.B, workers []*competitor, traffic, alone redisconn.Counts) {
	all := hdrhistogram.New(1, 60_000_000, 3)
	var counts []int64
	var lost int64
	for _, c := range workers {
		all.Merge(c.waits)
		counts = append(counts, c.count)
		lost += c.lost
	}

	if !l.kind.Promises.Exclusive {
		b.ReportMetric(float64(lost)/float64(b.N), "lost/op")
	}

	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(all.ValueAtQuantile(99))/1000, "p99-ms")
	if l.kind.Needs.InRedis() {
		n := float64(b.N)
		b.ReportMetric(float64(traffic.Commands)/n, "cmds/op")
		b.ReportMetric(float64(traffic.RoundTrips)/n, "trips/op")
		b.ReportMetric(max(0, float64(traffic.Commands)/n-float64(alone.Commands)), "waiting/op")
	}

	if len(workers) > 1 {
		row := result.Row{PerBuyer: counts}
		share := float64(sum(counts)) / float64(len(counts))
		b.ReportMetric(float64(slices.Min(counts))/share, "fewest")
		b.ReportMetric(float64(slices.Max(counts))/share, "most")
		b.ReportMetric(row.Jain(), "jain")
	}
}

func sum(all []int64) (total int64) {
	for _, n := range all {
		total += n
	}
	return total
}
