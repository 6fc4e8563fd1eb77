package lock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/param"
)

// shortTTL is the TTL that passes. The suite is as quick as that.
const shortTTL = 100 * time.Millisecond

// Every lock that needs one Redis keeps what it promises, renewed in the background too where it can be. Locks that need
// other servers call locktest.Run beside those, see TestRedlockConforms. Renewal by a watchdog is the same on every server.
func TestLocksConform(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, k := range lock.All() {
			if k.Needs != lock.NeedsNothing {
				continue
			}
			conforms(t, locktest.Redis{Server: s, Kind: k, Renewing: k.Name == "redisson"})
			if k.Renews && s.Kind == backend.KindLocal {
				watched, err := lock.WithWatchdog(k)
				if err != nil {
					t.Fatal(err)
				}
				conforms(t, locktest.Redis{Server: s, Kind: watched, Renewing: true})
			}
		}
	})
}

// conforms runs the suite. With all hooks there, no promise may stay unchecked but what is expected to.
func conforms(t *testing.T, r locktest.Redis, unchecked ...string) {
	t.Helper()
	r.TTL = shortTTL
	t.Run(r.Kind.Name, func(t *testing.T) { checked(t, locktest.Run(t, r.Subject(t)), unchecked...) })
}

// checked fails if other promises stayed unchecked than expected.
func checked(t *testing.T, r locktest.Report, unchecked ...string) {
	t.Helper()
	if got := r.Unchecked(); !slices.Equal(got, unchecked) {
		t.Errorf("unchecked are %q, want %q", got, unchecked)
	}
}

// A lock's parameters may change what it promises.
func TestLocksConformWithOtherParameters(t *testing.T) {
	s := backendtest.Local(t)
	for _, c := range []struct {
		lock, param, value string
	}{
		{"set-px", "expiry", "pxat"},
		{"redisson", "lease", shortTTL.String()},
	} {
		t.Run(c.lock+":"+c.param+"="+c.value, func(t *testing.T) {
			conforms(t, locktest.Redis{Server: s, Kind: kind(t, c.lock), Params: param.Values{c.param: c.value}})
		})
	}
}

// Workers of one process share what redisson shares. One of them alone cannot crash.
func TestWorkersOfOneProcessConform(t *testing.T) {
	s, process := backendtest.Local(t), &lock.Process{}
	t.Cleanup(func() {
		if err := process.Close(); err != nil {
			t.Error(err)
		}
	})
	conforms(t, locktest.Redis{Server: s, Kind: kind(t, "redisson"), Process: process, Renewing: true}, "survives a crash")
}

// What a kind says of itself is what its Lockers say.
func TestKindsPromiseWhatTheirLockersDo(t *testing.T) {
	s := backendtest.Embedded(t)
	for _, k := range lock.All() {
		if k.Needs != lock.NeedsNothing {
			continue
		}
		l := locktest.Redis{Server: s, Kind: k}.Subject(t).Open(t, locktest.Worker{TTL: time.Second, Timeout: time.Second})
		if got := l.Promises(); got != k.Promises {
			t.Errorf("%s: its Locker promises %+v, the kind %+v", k.Name, got, k.Promises)
		}
	}
}
