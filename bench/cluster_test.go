package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/results/stored"
)

// TestOnACluster are rows on one Redis Cluster, one after the other.
func TestOnACluster(t *testing.T) {
	on := cluster{testkit.Cluster(t)}
	t.Run("MarketsOnEachMaster", on.marketsOnEachMaster)
	t.Run("KeysElsewhere", on.keysElsewhere)
	t.Run("SlotMoves", on.slotMoves)
	t.Run("MasterDies", on.masterDies)
}

// cluster is a Redis Cluster that rows run on.
type cluster struct{ *servers.Cluster }

// clean fails if a node holds a key.
func (on cluster) clean(t *testing.T) {
	t.Helper()
	for _, master := range on.Server.Cluster().Masters() {
		conn := testkit.Must(backend.Dial(t.Context(), master))(t)
		defer conn.Close()
		if left := conn.Keys(t.Context(), "*").Val(); len(left) > 0 {
			t.Errorf("left at %s: %v", master.Addr, left)
		}
	}
}

// marketsOn are n markets on each master of the cluster.
func (on cluster) marketsOn(t *testing.T, each int) (sites []Site) {
	t.Helper()
	room := map[string]int{}
	for i := 0; len(sites) < each*len(on.Server.Cluster().Masters()); i++ {
		keys := testkit.Must(market.NewKeys(fmt.Sprintf("test:{%d}:", i)))(t)
		node := on.Server.Cluster().Master(keys.Prefix()).Addr
		room[node]++
		if room[node] <= each {
			sites = append(sites, Site{Keys: keys, Node: node, Dial: on.Server.Dialer(keys.Prefix())})
		}
	}
	return sites
}

func (on cluster) marketsOnEachMaster(t *testing.T) {
	c := config(t, on.Server, spec(t, "fine:set-px"))
	c.Sites, c.Markets, c.Private = on.marketsOn(t, 2), 6, true
	c.Mix = result.Mix{Sellers: 6, Buyers: 7}
	c.buys(700)
	row, err := c.run(t.Context())
	if err != nil || !row.Audit.Done || !row.Audit.OK || row.Bought < 700 {
		t.Fatalf("bought %d, audit %+v, %v", row.Bought, row.Audit, err)
	}
	if row.ServerCPU == nil || *row.ServerCPU <= 0 || row.OthersCPU != nil {
		t.Errorf("servers used %v s, others %v", row.ServerCPU, row.OthersCPU)
	}
	on.clean(t)
}

// keysElsewhere: a key that a lock makes on another master of a private cluster is found.
func (on cluster) keysElsewhere(t *testing.T) {
	sites := on.marketsOn(t, 1)
	c := config(t, on.Server, spec(t, "watch"))
	c.Keys, c.Dial, c.Private = sites[0].Keys, sites[0].Dial, true
	other := testkit.Must(sites[1].Dial(t.Context()))(t)
	defer other.Close()
	stray := sites[1].Keys.Lock("market")
	c.steps = func(role) step.Observer {
		return func(ctx context.Context, _ step.Name) { other.Set(ctx, stray, 1, 0) }
	}
	if _, err := c.run(t.Context()); err == nil || !strings.Contains(err.Error(), stray) {
		t.Errorf("a row that left %s elsewhere: %v", stray, err)
	}
	other.Del(t.Context(), stray)
	on.clean(t)
}

// slotMoves: the slot of a market moves while its workers trade, and stays half moved until they have met that. Every
// outcome is known.
func (on cluster) slotMoves(t *testing.T) {
	for _, name := range []string{"watch", "coarse:set-px", "fine:set-px", "fine:set-px:write=fused", "lua"} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c := config(t, on.Server, spec(t, name))
			c.Keys = testkit.Keys(t)
			c.Dial, c.Mix = on.Server.Dialer(c.Keys.Prefix()), result.Mix{Sellers: 2, Buyers: 3}
			c.buys(300)
			gate := step.Hold(step.BeforeWrite)
			c.steps = func(r role) step.Observer {
				if r == buyer {
					return gate.Observe
				}
				return nil
			}
			moved := make(chan error, 1)
			go func() {
				<-gate.Reached()
				moved <- on.moveHalfway(ctx, c.Keys, gate.Open)
			}()
			row, err := c.run(ctx)
			if err := <-moved; err != nil {
				t.Fatal(err)
			}
			if err != nil || !row.Audit.Done || !row.Audit.OK || row.Unknown != 0 || row.Bought < 300 {
				t.Errorf("bought %d, %d unknown, audit %+v, %v", row.Bought, row.Unknown, row.Audit, err)
			}
			on.clean(t)
		})
	}
}

// moveHalfway moves the slot of a market to another master. When one account has moved, and somebody is held, it lets
// them go on, and moves the rest when the server has refused something.
func (on cluster) moveHalfway(ctx context.Context, keys market.Keys, goOn func()) error {
	defer goOn()
	to, err := on.OtherMaster(ctx, keys.Prefix())
	if err != nil {
		return err
	}
	move, err := on.BeginMove(ctx, keys.Prefix(), to)
	if err != nil {
		return err
	}
	if err := move.Keys(ctx, keys.User(3)); err != nil { // of the first buyer
		return err
	}
	conn, err := on.Server.Dialer(keys.Prefix())(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	refused := func() string {
		fields, _ := conn.InfoFields(ctx, "errorstats")
		return fields["errorstat_ASK"] + fields["errorstat_TRYAGAIN"]
	}
	before := refused()
	goOn()
	err = backend.Await(ctx, time.Millisecond, func() error {
		if refused() == before {
			return fmt.Errorf("nothing was refused while the slot moved")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := move.Keys(ctx); err != nil {
		return err
	}
	return move.End(ctx)
}

// masterDies: a row whose market's master dies ends, says why and what to do, and blames no strategy.
func (on cluster) masterDies(t *testing.T) {
	c := config(t, on.Server, spec(t, "fine:set-px:ttl=500ms"))
	c.Dial, c.Mix, c.Keep = on.Server.Dialer(c.Keys.Prefix()), mix5x5, true
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
