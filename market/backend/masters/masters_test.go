package masters_test

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/masters"
	"github.com/marketsim/marketsim/market/backend/masters/masterstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	backend.QuietLogs()
	goleak.VerifyTestMain(m)
}

func TestMasters(t *testing.T) {
	m := masterstest.Start(t, 5)
	ctx := t.Context()
	seen := map[string]bool{}
	for i, dial := range masters.Dialers(m.Targets()) {
		seen[m.Targets()[i].Addr] = true
		rdb, err := dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer rdb.Close()
		if n, err := rdb.Incr(ctx, "n").Result(); err != nil || n != 1 {
			t.Errorf("master %d counts %d, %v; want 1: nobody else wrote to it", i, n, err)
		}
	}
	if len(seen) != 5 {
		t.Errorf("five masters have %d addresses", len(seen))
	}
}

func TestRestartComesBackEmpty(t *testing.T) {
	m := masterstest.Start(t, 3)
	ctx := t.Context()
	conn, err := m.Dial(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := m.Targets()[1]
	if err := m.Kill(1); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Dial(ctx, 1); !errors.Is(err, backend.ErrUnreachable) {
		t.Errorf("a killed master says %v", err)
	}
	if err := m.Restart(ctx, 1); err != nil {
		t.Fatal(err)
	}
	again, err := m.Dial(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := again.DBSize(ctx).Result(); err != nil || n != 0 || m.Targets()[1] != before {
		t.Errorf("it holds %d keys at %v, %v; want none at %v", n, m.Targets()[1], err, before)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		m, err := masters.Start(b.Context(), 5)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
