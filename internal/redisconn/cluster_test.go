package redisconn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"123456789": 12739, "foo": 12182, "": 0, "{user1000}.following": redisconn.Slot("user1000"),
		"foo{}{bar}": redisconn.Slot("foo{}{bar}"), "foo{{bar}}zap": redisconn.Slot("{bar"),
		"foo{bar}{zap}": redisconn.Slot("bar"),
	} {
		if got := redisconn.Slot(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}

// A connection that broke is made again to the replica that takes a dead master's place.
func TestConnFindsTheNextMaster(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := serverstest.Cluster(t)
	if masters := c.Server.Cluster().Masters(); len(masters) != 3 {
		t.Fatalf("masters: %v, want three", masters)
	}

	conn := testkit.Must(c.Server.Dialer("{m}").Dial(ctx))(t)
	defer conn.Close()
	testkit.Succeeds(t, conn.Set(ctx, "{m}", 2, 0).Err())
	at := testkit.Must(c.Master(ctx, "{m}"))(t)

	if n, err := conn.Wait(ctx, 1, 10*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("WAIT: %d, %v", n, err)
	}
	testkit.Succeeds(t, c.Redises[at].Kill())

	var value string
	// the first command finds the connection broken
	err := process.Await(ctx, time.Millisecond, func() (err error) {
		value, err = conn.Get(ctx, "{m}").Result()
		return err
	})

	if err != nil || value != "2" {
		t.Errorf("GET answers %q, %v", value, err)
	}
	if now := c.Server.Master("{m}").Addr; now == c.Addrs()[at] {
		t.Errorf("the master is %s, which was killed", now)
	}
}

// What Redis refuses is not executed, so that its outcome is known; what the network
// loses is of unknown outcome.
func TestRedirected(t *testing.T) {
	for text, want := range map[string]bool{
		"MOVED 3999 127.0.0.1:6381": true, "ASK 3999 127.0.0.1:6381": true,
		"TRYAGAIN Multiple keys":                                               true,
		"CLUSTERDOWN Hash slot not served":                                     true,
		"READONLY You can't write against a read only replica.":                true,
		"NOREPLICAS Not enough good replicas to write.":                        true,
		"LOADING Redis is loading the dataset in memory":                       true,
		"EXECABORT Transaction discarded because of: READONLY You can't write": true,
		"EXECABORT Transaction discarded because of previous errors.":          false,
		"ERR unknown command":                                                  false, "OOM command not allowed": false,
	} {
		if got := redisconn.Redirected(answer(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}

	if redisconn.Redirected(nil) || redisconn.Redirected(context.DeadlineExceeded) {
		t.Error("no answer is no redirect")
	}
}

// answer is an error as a server sends it.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// A node that is named by its socket says at which addresses the others are, which no socket
// reaches.
func TestClusterNamedByASocket(t *testing.T) {
	t.Parallel()
	_, err := redisconn.OpenCluster(t.Context(), redisconn.Target{Network: "unix", Addr: "/run/node"})
	if !errors.Is(err, redisconn.ErrUnsuitable) || !strings.Contains(fmt.Sprint(err), "name it by host and port") {
		t.Errorf("%v, want what to do about it", err)
	}
}
