package servers_test

import (
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
)

// TestForLockUsesTheUsersOwn gives addresses of everything and finds those that are
// needed, and nothing started.
func TestForLockUsesTheUsersOwn(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // nothing could be started
	own := servers.Addresses{
		Masters:   []redisconn.Target{{Network: "tcp", Addr: "a:1"}},
		ZooKeeper: []string{"b:1"},
		Etcd:      []string{"c:1"},
	}

	for need, want := range map[string]servers.Addresses{
		"":          {},
		"redlock":   {Masters: own.Masters},
		"zookeeper": {ZooKeeper: own.ZooKeeper},
		"etcd":      {Etcd: own.Etcd},
	} {
		locks, err := servers.ForLock(t.Context(), own, need)
		if err != nil {
			t.Fatalf("%q: %v", need, err)
		}
		if !reflect.DeepEqual(*locks, servers.Locks{Addresses: want}) {
			t.Errorf("%q: %+v, want %+v", need, *locks, want)
		}
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	}

	if locks, err := servers.ForLock(t.Context(), own, "postgres"); err == nil || locks != nil {
		t.Errorf("an unknown need: %v, %v", locks, err)
	}

	locks, err := servers.ForLock(t.Context(), servers.Addresses{}, "etcd")
	if !errors.Is(err, process.ErrUnavailable) || !strings.Contains(err.Error(), "lock etcd") || locks != nil {
		t.Errorf("nothing installed: %v, %v", locks, err)
	}
}

// TestForLockClosesWhatHadStarted before another server failed to, or TestMain finds it.
func TestForLockClosesWhatHadStarted(t *testing.T) {
	t.Parallel()
	locks, err := servers.ForLock(t.Context(), servers.Addresses{}, "redlock", "etcd", "postgres")
	if errors.Is(err, process.ErrUnavailable) {
		testkit.Require(t, "etcd", err.Error())
	}
	if err == nil || !strings.Contains(err.Error(), "postgres") || locks != nil {
		t.Errorf("with an unknown need: %v, %v", locks, err)
	}
}

// TestPreflight: a user's lock servers are asked one by one. Redlock does
// without a minority, which is named.
func TestPreflight(t *testing.T) {
	t.Parallel()
	m := serverstest.Masters(t, 5)
	locks := func() *servers.Locks {
		return &servers.Locks{Addresses: servers.Addresses{Masters: m.Targets(), Etcd: nil}}
	}
	missing, err := locks().Preflight(t.Context())
	if err != nil || len(missing) > 0 {
		t.Errorf("five masters: %q, %v", missing, err)
	}

	for i := range 5 {
		conn := testkit.Must(m[i].Dial(t.Context()))(t)
		defer conn.Close()
		if keys := conn.Keys(t.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("left on master %d: %q", i, keys)
		}
		switch i {
		case 0: // a replica
			host, port, _ := net.SplitHostPort(m.Addrs()[4])
			err = conn.ReplicaOf(t.Context(), host, port).Err()
		case 1: // another password
			err = conn.ConfigSet(t.Context(), "requirepass", "secret").Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	missing, err = locks().Preflight(t.Context())
	if err != nil || len(missing) != 2 {
		t.Fatalf("two of five cannot be used: %q, %v", missing, err)
	}
	for i, why := range []string{"read-only replica", "cannot log in"} {
		if !strings.Contains(missing[i], m.Addrs()[i]) || !strings.Contains(missing[i], why) {
			t.Errorf("%q does not say %s and %s", missing[i], m.Addrs()[i], why)
		}
	}

	testkit.Succeeds(t, m[2].Kill())
	_, err = locks().Preflight(t.Context())
	if err == nil || !strings.Contains(err.Error(), "without 3 of its 5 servers") ||
		!strings.Contains(err.Error(), m.Addrs()[2]) {
		t.Errorf("three of five cannot be used: %v", err)
	}

	addrs := m.Addrs()[2:3]
	dead := &servers.Locks{Addresses: servers.Addresses{ZooKeeper: addrs, Etcd: addrs}}
	_, err = dead.Preflight(t.Context())
	if err == nil || !strings.Contains(err.Error(), "zookeeper cannot work") {
		t.Errorf("nothing answers for ZooKeeper: %v", err)
	}
}
