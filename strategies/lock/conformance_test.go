package lock_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/suite/subjects"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/locktest"
)

// shortTTL is the TTL that the suite waits for.
const shortTTL = 200 * time.Millisecond

// Every lock that needs one Redis keeps what it promises, renewed in the background too
// where it can be. Locks that need other servers call locktest.Run beside those, see
// TestRedlockConforms. Renewal by a watchdog is the same on every server.
func TestLocksConform(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		t.Parallel()
		for _, k := range lock.All() {
			if k.Needs != lock.NeedsNothing || len(k.NewerCommands(nil)) > 0 {
				continue
			}

			on := s
			if s.Name == backend.OriginEmbedded { // each command there looks at every key
				on = testkit.Embedded(t)
			}
			conforms(t, subjects.OnRedis{Server: on, Kind: k, Renewing: k.Name == "redisson"})
			if k.Renews && s.Name == backend.OriginLocal {
				watched := testkit.Must(lock.WithWatchdog(k))(t)
				conforms(t, subjects.OnRedis{Server: s, Kind: watched, Renewing: true})
			}
		}
	})
}

// conforms runs the suite. With all hooks there, no promise may stay unchecked but
// what is expected to. Waiters poll at leisure: many suites share a machine. Two locks
// need more time on a busy machine, because their waiters must run in time too.
func conforms(t *testing.T, r subjects.OnRedis, unchecked ...string) {
	t.Helper()
	if r.TTL == 0 {
		r.TTL = shortTTL
	}

	r.Params = maps.Clone(r.Params)
	if r.Params == nil {
		r.Params = param.Values{}
	}
	r.Params["poll"] = "2ms" // if the lock polls

	switch r.Kind.Name {
	case "rw-hash": // a waiter counts the holder's time by its own TTL
		r.TTL = time.Second
	case "queue", "queue+watchdog": // a waiter that misses five looks loses its place
		r.Params["look"] = "1s"
	}

	r.Parallel = r.TTL >= time.Second // its checks mostly wait: at the same time
	t.Run(r.Kind.Name, func(t *testing.T) {
		t.Parallel()
		checked(t, locktest.Run(t, r.Factory(t)), unchecked...)
	})
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
	t.Parallel()
	s := testkit.Local(t)
	for _, c := range []struct {
		lock, param, value string
		ttl                time.Duration // 0: shortTTL
	}{
		{"setnx", "lost-reply", "released", 0},
		{"setnx-expire-naive", "take", "script", 0},
		{"getset", "release", "in-time", 0},
		{"set-px", "expiry", "pxat", 0},
		{"set-px", "get", "on", 0},
		{"set-px", "release", "watch", 0},
		{"reentrant-local", "renewals", "4", 0},
		// Which does not grow with the TTL when the suite tries again.
		{"redisson", "lease", "2s", 2 * time.Second},
	} {
		t.Run(c.lock+":"+c.param+"="+c.value, func(t *testing.T) {
			t.Parallel()
			conforms(t, subjects.OnRedis{
				Server: s, Kind: kind(t, c.lock), Params: param.Values{c.param: c.value}, TTL: c.ttl,
			})
		})
	}
}

// Locks by commands that not every server has, on one that has them. No server that can
// be had has DELEX: miniredis does.
func TestLocksByNewerCommandsConform(t *testing.T) {
	t.Parallel()
	watched := testkit.Must(lock.WithWatchdog(kind(t, "set-px")))(t)

	for _, c := range []struct {
		kind   lock.Kind
		params param.Values
		server backend.Origin
	}{
		{kind(t, "set-px"), param.Values{"release": "delex"}, backend.OriginEmbedded},
		{kind(t, "set-px"), param.Values{"release": "delifeq"}, backend.OriginLocal},
		{watched, param.Values{"renew-by": "ifeq", "release": "delifeq"}, backend.OriginLocal},
	} {
		t.Run(fmt.Sprintf("%s/%s %v", c.server, c.kind.Name, c.params), func(t *testing.T) {
			t.Parallel()
			var s *backend.Server
			if c.server == backend.OriginEmbedded {
				s = testkit.Embedded(t)
			} else {
				s = newer(t, c.kind, c.params)
			}

			conforms(t, subjects.OnRedis{
				Server:   s,
				Kind:     c.kind,
				Params:   c.params,
				Renewing: c.kind.Name == "set-px+watchdog",
			})
		})
	}
}

// newer starts a server of PATH that has the commands that a lock needs. The test needs
// "newer", see testkit.Require.
func newer(t *testing.T, k lock.Kind, v param.Values) *backend.Server {
	t.Helper()
	var lacking []string
	for _, program := range []string{"redis-server", "valkey-server"} {
		s, err := backend.Local{Program: program}.Start(t.Context())
		if err == nil {
			t.Cleanup(func() {
				_ = s.Close()
			})
			for _, c := range k.NewerCommands(v) {
				err = cmp.Or(err, c.Check(t.Context(), testkit.Dial(t, s).Client, "preflight"))
			}
		}

		if err == nil {
			return s
		}
		lacking = append(lacking, err.Error())
	}

	testkit.Require(t, "newer", strings.Join(lacking, "; "))
	return nil
}

// Workers of one process share what redisson shares. One of them alone cannot crash.
func TestWorkersOfOneProcessConform(t *testing.T) {
	t.Parallel()
	s, process := testkit.Local(t), &lock.ProcessState{}
	t.Cleanup(func() {
		if err := process.Close(); err != nil {
			t.Error(err)
		}
	})
	conforms(t,
		subjects.OnRedis{Server: s, Kind: kind(t, "redisson"), Process: process, Renewing: true},
		"survives a crash", "clock-independent")
}

// What a kind says of itself is what its Lockers say.
func TestKindsPromiseWhatTheirLockersDo(t *testing.T) {
	t.Parallel()
	s := testkit.Embedded(t)
	for _, k := range lock.All() {
		if k.Needs != lock.NeedsNothing {
			continue
		}
		worker := locktest.Worker{TTL: time.Second, Timeout: time.Second}
		l := subjects.OnRedis{Server: s, Kind: k}.Factory(t).Open(t, worker)
		if got := l.Promises(); got != k.Promises {
			t.Errorf("%s: its Locker promises %+v, the kind %+v", k.Name, got, k.Promises)
		}

		_, err := l.Try(t.Context(), name)
		_, again := l.Try(t.Context(), name)
		var want error // of the holder's next Try
		if !k.Promises.Reentrant {
			want = lock.ErrHeld
		}
		if err != nil || !errors.Is(again, want) {
			t.Errorf("%s: Try says %v, and the holder's next Try %v", k.Name, err, again)
		}
	}
}
