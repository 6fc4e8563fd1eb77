package lock_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/param"
)

// replicated starts a Redis with one replica, which reaches it through a proxy, and waits until that has caught up.
func replicated(t *testing.T) (master, replica *backend.Server, link *wire.Proxy) {
	t.Helper()
	master = testkit.Local(t, "--repl-diskless-sync-delay", "0")
	link, err := wire.Start(master.Target.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	host, port, _ := net.SplitHostPort(link.Addr())
	replica = testkit.Local(t, "--replicaof", host, port)
	conn := testkit.Dial(t, master)
	until(t, "the replica is there", func() bool {
		n, err := conn.Wait(t.Context(), 1, time.Second).Result()
		return err == nil && n == 1
	})
	return master, replica, link
}

// waitsLong is wait=1 with a time-out that a busy machine makes.
var waitsLong = param.Values{"wait": "1", "wait-timeout": "1m0s", "ttl": "1h0m0s"}

func TestReplicasHaveTheLockOnceItIsHeld(t *testing.T) {
	t.Parallel()
	master, replica, link := replicated(t)
	b := newBench(t, master)
	other := testkit.Dial(t, replica)
	for _, get := range []string{"off", "on"} {
		params := param.Values{"get": get}
		for name, value := range waitsLong {
			params[name] = value
		}
		lease := b.try(b.worker("set-px", setting{params: params}))
		if token := other.Get(t.Context(), b.keys.Lock(name)).Val(); token == "" || token != b.holder() {
			t.Errorf("get=%s: the replica has the token %q, the master %q", get, token, b.holder())
		}
		_, err := b.worker("set-px", setting{params: params}).Try(t.Context(), name)
		wants(t, "another's Try", err, lock.ErrHeld)
		wants(t, "release", lease.Release(t.Context()), nil)
	}

	link.Partition() // it stays connected, and is silent
	_, err := b.worker("set-px", setting{params: param.Values{"wait": "1"}}).Try(t.Context(), name)
	wants(t, "Try while the replica is silent", err, lock.ErrHeld)
	b.free()
}

// Waiting does not help where there are too few replicas: the error says how many there are, and what to do.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t))
	_, err := b.worker("set-px", setting{params: param.Values{"wait": "2"}}).Acquire(t.Context(), name)
	if err == nil || errors.Is(err, lock.ErrTimeout) || !strings.HasSuffix(err.Error(),
		"wait=2 asks for that many replicas, and the server of the lock has 0: connect more (REPLICAOF, on each), or leave wait out") {
		t.Errorf("Acquire: %v", err)
	}
	b.free()
}

func TestReplicatedLockConforms(t *testing.T) {
	t.Parallel()
	master, _, _ := replicated(t)
	conforms(t, locktest.Redis{
		Server: master, Kind: kind(t, "set-px"), Params: param.Values{"wait": "1", "wait-timeout": "1.9s"},
		TTL: 2 * time.Second, Parallel: true,
	})
}

func TestWaitParametersThatDoNotGoTogether(t *testing.T) {
	t.Parallel()
	check := kind(t, "set-px").Check
	for _, v := range []param.Values{
		{"wait-timeout": "1s"}, {"wait": "1", "ttl": "100ms"}, {"wait": "1", "wait-timeout": "10s"},
	} {
		if check(v) == nil {
			t.Errorf("%v is accepted", v)
		}
	}
	for _, v := range []param.Values{{"ttl": "100ms"}, {"wait": "1"}, waitsLong} {
		if err := check(v); err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
}
