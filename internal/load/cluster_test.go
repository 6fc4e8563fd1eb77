package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// TestOnACluster are rows on one Redis Cluster, one after the other.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	on := cluster{serverstest.Cluster(t)}
	t.Run("MarketsOnEachMaster", on.marketsOnEachMaster)
	t.Run("KeysElsewhere", on.keysElsewhere)
	t.Run("FailsOver", on.failsOver)
	t.Run("MasterDies", on.masterDies)
}

// cluster is a Redis Cluster that rows run on.
type cluster struct{ *servers.Cluster }

// clean fails if a node holds a key.
func (on cluster) clean(t *testing.T) {
	t.Helper()
	for _, master := range on.Server.Cluster().Masters() {
		conn := testkit.Must(redisconn.To(master).Dial(t.Context()))(t)
		defer conn.Close()
		if left := conn.Keys(t.Context(), "*").Val(); len(left) > 0 {
			t.Errorf("left at %s: %v", master.Addr, left)
		}
	}
}

// numberOf is which node has an address.
func (on cluster) numberOf(addr string) int { return slices.Index(on.Addrs(), addr) }

// marketsOn are the keys of a market on each master of the cluster.
func (on cluster) marketsOn(t *testing.T) []market.Keys {
	t.Helper()
	found := map[string]market.Keys{}
	masters := len(on.Server.Cluster().Masters())
	for i := 0; len(found) < masters; i++ {
		keys := testkit.Must(market.NewKeys(fmt.Sprintf("test:{%d}:", i)))(t)
		found[on.Server.Master(keys.Prefix()).Addr] = keys
	}
	return slices.Collect(maps.Values(found))
}

// marketsOnEachMaster: each master has as many of a row's markets as the others, and tells
// what it did for them.
func (on cluster) marketsOnEachMaster(t *testing.T) {
	c := several(t, on.Server, "fine:set-px", 6)
	base := testkit.Must(market.NewKeys("test:"))(t)
	c.Keys = base
	c.Sites = testkit.Must(Sites(on.Server, base, 6))(t)
	c.Private = true
	c.buys(700)
	row, err := c.run(t.Context())
	if err != nil || !row.Audit.Done || !row.Audit.OK || row.Bought < 700 {
		t.Fatalf("bought %d, audit %+v, %v", row.Bought, row.Audit, err)
	}
	if row.ServerCPU == nil || *row.ServerCPU <= 0 || row.OthersCPU != nil {
		t.Errorf("servers used %v s, others %v", row.ServerCPU, row.OthersCPU)
	}

	var purchases, commands int64
	for _, master := range row.Masters {
		if master.Markets != 2 || !master.Here || master.CPU == nil || *master.CPU <= 0 || master.Bought == 0 {
			t.Errorf("a master did %+v", master)
		}
		purchases += master.Bought
		commands += *master.Commands
	}
	if len(row.Masters) != 3 || purchases != row.Bought || commands != *row.Commands {
		t.Errorf("%d masters made %d of %d purchases with %d of %d commands", len(row.Masters), purchases, row.Bought,
			commands, *row.Commands)
	}
	on.clean(t)
}

// keysElsewhere: a key that a lock makes on another master of a private cluster is found.
func (on cluster) keysElsewhere(t *testing.T) {
	markets := on.marketsOn(t)
	c := config(t, on.Server, spec(t, "watch"))
	c.Keys, c.Servers.Market, c.Private = markets[0], on.Server.Dialer(markets[0].Prefix()), true

	other := testkit.Must(on.Server.Dialer(markets[1].Prefix()).Dial(t.Context()))(t)
	defer other.Close()
	stray := markets[1].Lock("market")
	c.steps = func(role) step.Observer {
		return func(ctx context.Context, _ step.Name) { other.Set(ctx, stray, 1, 0) }
	}

	if _, err := c.run(t.Context()); err == nil || !strings.Contains(err.Error(), stray) {
		t.Errorf("a row that left %s elsewhere: %v", stray, err)
	}

	// The row has only named the stray key: it is still there.
	other.Del(t.Context(), stray)
	on.clean(t)
}

// failsOver: a row whose market's master hands its slots to its replica, and goes on as a
// replica itself, ends and says what to do. It is audited where the market is then, and
// nothing is left. Each is on a master of its own: a second failover of the same one
// would be refused for a while.
func (on cluster) failsOver(t *testing.T) {
	markets := on.marketsOn(t)
	for i, name := range []string{"watch", "coarse:setnx", "lua"} {
		t.Run(name, func(t *testing.T) {
			c := config(t, on.Server, spec(t, name))
			c.Keys, c.Servers.Market = markets[i], on.Server.Dialer(markets[i].Prefix())
			c.timed(time.Minute)

			// The master hands over once a worker has written: the load is then under way.
			gate := step.Hold(step.Written)
			c.steps = func(role) step.Observer { return gate.Observe }
			failed := make(chan error, 1)
			go func() {
				<-gate.Reached()
				gate.Open()
				failed <- on.failOver(t.Context(), c.Keys.Prefix())
			}()

			row, err := c.run(t.Context())
			testkit.Succeeds(t, <-failed)
			if row.Status != stored.Incomplete || !row.Audit.Done || !row.Audit.OK || row.Unknown != 0 {
				t.Errorf("%s, bought %d, %d unknown, audit %+v", row.Status, row.Bought, row.Unknown, row.Audit)
			}

			for _, says := range []string{"or serves the market's slot no longer", "MOVED", "run it again"} {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("the error is %v, want one that says %q", err, says)
				}
			}

			on.clean(t)
		})
	}
}

// failOver makes the replica of a key's master the master, when it has all that
// the master has.
func (on cluster) failOver(ctx context.Context, key string) error {
	from, err := on.Master(ctx, key)
	if err != nil {
		return err
	}

	to, err := on.ReplicaOf(ctx, from)
	if err != nil {
		return err
	}

	return redisconn.With(ctx, on.Redises[to].Target, func(conn *redisconn.Conn) error {
		var asked time.Time
		for ; ; time.Sleep(20 * time.Millisecond) {
			fields, err := conn.InfoFields(ctx, "replication")
			if err != nil || fields["role"] == "master" {
				return err
			}

			// Redis has given the last one up: a busy machine held no election
			if time.Since(asked) > 6*time.Second {
				asked = time.Now()
				err = conn.ClusterFailover(ctx).Err()
			}
			if err != nil {
				return err
			}
		}
	})
}

// masterDies: a row whose market's master dies ends, says why and what to do,
// and blames no strategy.
func (on cluster) masterDies(t *testing.T) {
	c := config(t, on.Server, spec(t, "fine:set-px:ttl=500ms"))
	c.Servers.Market, c.Mix, c.Keep = on.Server.Dialer(c.Keys.Prefix()), mix5x5, true
	c.timed(time.Minute)

	gate := step.Hold(step.Written)
	c.steps = func(role) step.Observer { return gate.Observe }
	killed := make(chan error, 1)
	go func() {
		<-gate.Reached()
		gate.Open()
		at, err := on.Master(t.Context(), c.Keys.Prefix())
		if err == nil {
			err = on.Redises[at].Kill()
		}
		killed <- err
	}()

	row, err := c.run(t.Context())
	testkit.Succeeds(t, <-killed)
	if row.Status != stored.Incomplete || row.Audit.Done && !row.Audit.OK {
		t.Errorf("%s, bought %d, audit %+v", row.Status, row.Bought, row.Audit)
	}

	for _, says := range []string{
		"a master of the cluster is gone",
		"redis-cli --cluster check 127.0.0.1:",
		"run it again",
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want one that says %q", err, says)
		}
	}
}
