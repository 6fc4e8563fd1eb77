package testkit_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestEach(t *testing.T) {
	var kinds []backend.Origin
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		kinds = append(kinds, s.Name)
		key := testkit.Keys(t).Market()
		if err := testkit.Dial(t, s).ZAdd(t.Context(), key).Err(); err == nil {
			t.Error("a ZADD of nothing succeeded")
		}
	})
	without := testkit.Raced && testkit.Required("redis")
	if len(kinds) == 0 || slices.Contains(kinds, backend.OriginEmbedded) == without {
		t.Errorf("ran on %v, without the embedded server: %t", kinds, without)
	}
}

func TestKeysAreFresh(t *testing.T) {
	if a, b := testkit.Keys(t), testkit.Keys(t); a == b {
		t.Errorf("two calls returned %q", a.Prefix())
	}
}

// verdict is a testing.TB that notes how a test would have ended.
type verdict struct {
	testing.TB
	failed, skipped bool
}

func (v *verdict) Helper()               {}
func (v *verdict) Fatalf(string, ...any) { v.failed = true; runtime.Goexit() }
func (v *verdict) Skipf(string, ...any)  { v.skipped = true; runtime.Goexit() }

func (v *verdict) require() { testkit.Require(v, "redis", "it is a test") }

func TestRequire(t *testing.T) {
	for value, fails := range map[string]bool{
		"":             false,
		"docker":       false,
		"redis":        true,
		"docker,redis": true,
		"all":          true,
	} {
		t.Setenv("MARKETSIM_REQUIRE", value)
		v := &verdict{TB: t}
		var ended sync.WaitGroup
		ended.Go(v.require)
		ended.Wait()

		if v.failed != fails || v.skipped == fails {
			t.Errorf("MARKETSIM_REQUIRE=%q: failed %v, skipped %v", value, v.failed, v.skipped)
		}
	}
}

// A test under Try that needs what is missing skips the test that tries it, in its own goroutine.
func TestTryOfWhatIsMissing(t *testing.T) {
	goesOn := false
	said := testkit.Try(t, func(t testing.TB) {
		testkit.Try(t, func(t testing.TB) { t.Skipf("needs %s", "a server") })
		goesOn = true
	})
	if said != "" || goesOn {
		t.Errorf("it goes on: %t, and says %q", goesOn, said)
	}
}
