package bench_test

import (
	"errors"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/etcd"
	"github.com/marketsim/marketsim/market/backend/masters"
	"github.com/marketsim/marketsim/market/backend/zookeeper"
	"github.com/marketsim/marketsim/strategies/lock"
)

// serversFor starts what a lock needs besides Redis; false if this machine cannot and need not.
func serversFor(b *testing.B, kind lock.Kind) (s lock.Servers, five []backend.Target, ok bool) {
	var err error
	switch kind.Needs {
	case lock.NeedsMasters:
		var started *masters.Masters
		if started, err = masters.Start(b.Context(), 5); err == nil {
			b.Cleanup(func() { started.Close() })
			five = started.Targets()
		}
	case lock.NeedsZooKeeper:
		var one *zookeeper.Ensemble
		if one, err = zookeeper.Start(b.Context(), 1); err == nil {
			b.Cleanup(func() { one.Close() })
			s.ZooKeeper = one.Addrs()
		}
	case lock.NeedsEtcd:
		var one *etcd.Cluster
		if one, err = etcd.Start(b.Context(), 1); err == nil {
			b.Cleanup(func() { one.Close() })
			s.Etcd = one.Addrs()
		}
	}
	if errors.Is(err, backend.ErrUnavailable) && !backendtest.Required(string(kind.Needs)) {
		b.Logf("lock %s is left out: %v", kind.Name, err)
		return s, nil, false
	}
	if err != nil {
		b.Fatal(err)
	}
	return s, five, true
}

// report turns what was counted into metrics.
func (l *lockLoad) report(b *testing.B, crew []*competitor, traffic, alone backend.Counts) {
	all := hdrhistogram.New(1, 60_000_000, 3)
	var counts []int64
	var lost int64
	for _, c := range crew {
		all.Merge(c.waits)
		counts = append(counts, c.count)
		lost += c.lost
	}
	if !l.kind.Promises.Exclusive {
		b.ReportMetric(float64(lost)/float64(b.N), "lost/op")
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(all.ValueAtQuantile(99))/1000, "p99-ms")
	if l.kind.Needs == lock.NeedsNothing || l.kind.Needs == lock.NeedsMasters {
		n := float64(b.N)
		b.ReportMetric(float64(traffic.Commands)/n, "cmds/op")
		b.ReportMetric(float64(traffic.RoundTrips)/n, "trips/op")
		b.ReportMetric(max(0, float64(traffic.Commands)/n-float64(alone.Commands)), "waiting/op")
	}
	if len(crew) > 1 {
		f := bench.FairnessOf(counts)
		b.ReportMetric(f.Fewest, "fewest")
		b.ReportMetric(f.Most, "most")
		b.ReportMetric(f.Jain, "jain")
	}
}
