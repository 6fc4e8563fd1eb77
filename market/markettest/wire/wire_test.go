package wire_test

import (
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/markettest/wire"
)

func TestMain(m *testing.M) { backendtest.VerifyNoLeaks(m) }

func TestCutsAtTheChosenCommand(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		proxy, key := wire.Start(t, s), backendtest.Keys(t).Run()
		direct, through := backendtest.Dial(t, s), backendtest.Dial(t, proxy.Server())
		count := func() int64 {
			t.Helper()
			n, err := direct.IncrBy(t.Context(), key, 0).Result()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, step := range []struct {
			name  string
			cut   func()
			fails bool
			want  int64 // executed so far
		}{
			{"passes", func() {}, false, 1},
			{"reply lost", func() { proxy.LoseReply("INCR") }, true, 2},
			{"connects anew", func() {}, false, 3},
			{"command lost", func() { proxy.LoseCommand("incr") }, true, 3},
			{"another command", func() { proxy.LoseCommand("decr") }, false, 4},
		} {
			step.cut()
			err := through.Incr(t.Context(), key).Err()
			if (err != nil) != step.fails {
				t.Errorf("%s: INCR returned %v", step.name, err)
			}
			if n := count(); n != step.want {
				t.Errorf("%s: INCR was executed %d times, want %d", step.name, n, step.want)
			}
		}
	})
}
