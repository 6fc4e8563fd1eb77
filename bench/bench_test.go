package bench_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite/subjects"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

func TestMain(m *testing.M) {
	redisconn.QuietLogs()
	testkit.VerifyNoLeaks(m)
}

// TestMeasure: a row is measured on the server of a URL, where no key stays, and mistakes are
// told from failures.
func TestMeasure(t *testing.T) {
	s := testkit.Local(t)
	url := "redis://:" + s.Target.Password + "@" + s.Target.Addr
	open := testkit.Must(strategies.Builtin().Parse("lua"))(t).OpenFor
	o := bench.Options{URL: url, Private: true, Duration: 20 * time.Millisecond, Load: result.Load{Hot: 2}}
	row, err := bench.Measure(t.Context(), open, result.Mix{Buyers: 2}, o)
	if err != nil || row.Name() != "own 0x2 hot=2" || row.Status != "complete" || !row.Audit.OK {
		t.Errorf("the row is %+v, %v", row, err)
	}

	_, err = bench.Measure(t.Context(), open, result.Mix{Sellers: 1, Buyers: 2}, o)
	if !errors.Is(err, bench.ErrPoint) || !strings.Contains(err.Error(), "want 0 sellers") {
		t.Errorf("sellers of hot items: %v", err)
	}

	o.Load = result.Load{Markets: 2}
	row, err = bench.Measure(t.Context(), open, result.Mix{Sellers: 2, Buyers: 3}, o)
	if err != nil || row.Name() != "own 2x3 markets=2" || !row.Audit.OK {
		t.Errorf("the row of two markets is %+v, %v", row, err)
	}

	o.Load = result.Load{Hot: 2}
	o.URL = "localhost:1"
	_, err = bench.Measure(t.Context(), open, result.Mix{Buyers: 2}, o)
	if !errors.Is(err, redisconn.ErrURL) {
		t.Errorf("a URL without redis://: %v", err)
	}
}

// BenchmarkPurchase measures every strategy under the book's loads. An operation is one
// purchase made, by any of the buyers, while the sellers list beside them; retries and
// orders that came too late are part of its price.
//
//	go test ./bench -run '^$' -bench Purchase -count 6 >purchase.txt
//	benchstat -col /strategy purchase.txt
//
// 'marketsim run --format gobench' has the same names and units:
//
//	benchstat purchase.txt run.txt
//
// An operation takes the row's own time, up to its last purchase, over their number. The
// audit must pass: a strategy that is safe and loses something fails the benchmark. That
// unsafe loses something is what it is for.
func BenchmarkPurchase(b *testing.B) {
	server := subjects.StartServer(b)
	writeConfig(b, os.Stdout, server)
	if server.Name == backend.OriginEmbedded {
		fmt.Fprintln(os.Stderr, server.Describe())
	}
	for _, s := range strategies.All() {
		spec := testkit.Must(strategies.Builtin().Parse(s.Name))(b)
		for _, mix := range []result.Mix{{Sellers: 1, Buyers: 1}, {Sellers: 5, Buyers: 1}, {Sellers: 5, Buyers: 5}} {
			p := result.Point{Strategy: spec.String(), Mix: mix}
			b.Run(view.BenchmarkName(p), func(b *testing.B) { purchase(b, server, spec, p) })
		}
	}
}

// writeConfig writes what benchstat reads as configuration, beside what package testing does.
func writeConfig(tb testing.TB, w io.Writer, server *backend.Server) {
	info := testkit.Must(server.Info(tb.Context()))(tb)
	fmt.Fprintf(w, "server: %s %s\nbackend: %s\n", info.Product, info.Version, server.Name)
}

func purchase(b *testing.B, server *backend.Server, spec strategies.Spec, p result.Point) {
	b.StopTimer()
	b.ResetTimer()

	ctx, subject := subjects.Limited(b.Context(), timed(b, spec, p.Mix.Sellers+p.Mix.Buyers), b.N)
	row, err := load.Measure(ctx, p, load.Options{
		Subject: subject, Duration: 24 * time.Hour, Seed: load.DefaultSeed,
		Keys: testkit.Keys(b), Servers: connect.MarketServers{Market: server.Dialer("")},
		Private: server.Name != backend.OriginURL,
	})
	if err != nil {
		b.Fatal(err)
	}

	switch {
	case row.Bought != int64(b.N):
		b.Fatalf("%d purchases made, want %d: %v", row.Bought, b.N, row.Warnings)
	case !row.Audit.OK && spec.Strategy().Protects.Items:
		b.Fatalf("the audit found %d items and %d accounts wrong: %v",
			row.Audit.ItemProblems, row.Audit.MoneyProblems, row.Audit.Problems)
	case !row.Audit.OK:
		b.Logf("as expected, the audit of %d purchases found %d items and %d accounts wrong",
			row.Bought, row.Audit.ItemProblems, row.Audit.MoneyProblems)
	}

	for _, v := range view.BenchmarkValues(&row) {
		b.ReportMetric(v.Value, v.Unit)
	}
}

// timed runs a benchmark's clock while the workers of a row work: from the last Purchaser
// that is opened to the first that is closed. So the clock decides how long the benchmark
// goes on, and the rest of load.Measure is not on it.
func timed(b *testing.B, spec strategies.Spec, purchasers int) strategies.Spec {
	return subjects.WithOpener(spec, func(open subjects.Opener) subjects.Opener {
		return func(env strategies.Env) (market.Purchaser, io.Closer, error) {
			p, closer, err := open(env)
			purchasers--
			if purchasers == 0 {
				b.StartTimer()
			}
			return p, stopping{closer, b}, err
		}
	})
}

// stopping is a Purchaser's closer that stops the clock.
type stopping struct {
	io.Closer
	b *testing.B
}

func (s stopping) Close() error {
	s.b.StopTimer()
	if s.Closer == nil {
		return nil
	}
	return s.Closer.Close()
}
