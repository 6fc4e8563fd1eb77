package backend_test

import (
	"errors"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name  string
		local backend.Local
		lost  bool
	}{
		{"empty", backend.Local{}, true},
		{"with its data", backend.Local{Dir: dir, Args: []string{"--appendonly", "yes", "--appendfsync", "always"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first := backendtest.Start(t, tc.local)
			if err := backendtest.Dial(t, first).Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			second, err := tc.local.Restart(t.Context(), first)
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			if second.Target.Addr != first.Target.Addr || second.PID() == first.PID() {
				t.Errorf("process %d at %v is process %d at %v", first.PID(), first.Target, second.PID(), second.Target)
			}
			err = backendtest.Dial(t, second).Get(t.Context(), "k").Err()
			if lost := errors.Is(err, redis.Nil); lost != tc.lost || err != nil && !lost {
				t.Errorf("reading what was written before: %v; want it lost: %v", err, tc.lost)
			}
		})
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		t.Errorf("the caller's folder holds %v, %v", entries, err)
	}
}

func TestRestartOfAServerThatIsNotOurs(t *testing.T) {
	if _, err := (backend.Local{}).Restart(t.Context(), backendtest.Embedded(t)); !errors.Is(err, backend.ErrNotOurs) {
		t.Errorf("restarting miniredis: %v", err)
	}
}
