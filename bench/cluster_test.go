package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// TestOnACluster are rows on one Redis Cluster, one after the other.
func TestOnACluster(t *testing.T) {
	on := cluster{testkit.Cluster(t)}
	t.Run("MarketsOnEachMaster", on.marketsOnEachMaster)
	t.Run("KeysElsewhere", on.keysElsewhere)
	t.Run("SlotMoves", on.slotMoves)
	t.Run("Patience", on.patience)
	t.Run("MasterDies", on.masterDies)
}

// cluster is a Redis Cluster that rows run on.
type cluster struct{ *servers.Cluster }

// clean fails if a node holds a key.
func (on cluster) clean(t *testing.T) {
	t.Helper()
	for _, master := range on.Server().Cluster().Masters() {
		conn, err := backend.Dial(t.Context(), master)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if left := conn.Keys(t.Context(), "*").Val(); len(left) > 0 {
			t.Errorf("left at %s: %v", master.Addr, left)
		}
	}
}

// marketsOn are so many markets on each master of the cluster.
func (on cluster) marketsOn(t *testing.T, each int) (sites []Site) {
	t.Helper()
	room := map[string]int{}
	for i := 0; len(sites) < each*len(on.Server().Cluster().Masters()); i++ {
		keys, err := market.NewKeys(fmt.Sprintf("test:{%d}:", i))
		if err != nil {
			t.Fatal(err)
		}
		node := on.Server().Cluster().Master(keys.Prefix()).Addr
		if room[node]++; room[node] <= each {
			sites = append(sites, Site{Keys: keys, Node: node, Dial: on.Server().Dialer(keys.Prefix())})
		}
	}
	return sites
}

func (on cluster) marketsOnEachMaster(t *testing.T) {
	c := config(t, on.Server(), spec(t, "fine:set-px"))
	c.Sites, c.Markets, c.Private = on.marketsOn(t, 2), 6, true
	c.Mix, c.Purchases = result.Mix{Sellers: 6, Buyers: 7}, 700
	row, err := Run(t.Context(), c)
	if err != nil || !row.Audit.Done || !row.Audit.OK || row.Bought < 700 {
		t.Fatalf("bought %d, audit %+v, %v", row.Bought, row.Audit, err)
	}
	var bought int64
	for _, n := range row.Nodes {
		bought += n.Bought
		if n.Markets != 2 || n.Bought == 0 || n.PurchasesPerSecond <= 0 || n.ServerUS == nil || *n.ServerUS <= 0 {
			t.Errorf("node %+v", n)
		}
	}
	if len(row.Nodes) != 3 || bought != row.Bought || row.Cost == nil || row.Cost.ServerUS == nil {
		t.Errorf("nodes %+v bought %d of %d, cost %+v", row.Nodes, bought, row.Bought, row.Cost)
	}
	if row.Redirects == nil || *row.Redirects != 0 || row.WithoutServiceSeconds == nil || *row.WithoutServiceSeconds <= 0 {
		t.Errorf("redirects %v, without service %v", row.Redirects, row.WithoutServiceSeconds)
	}
	on.clean(t)
}

// keysElsewhere: a key that a lock makes on another master of a private cluster is found.
func (on cluster) keysElsewhere(t *testing.T) {
	sites := on.marketsOn(t, 1)
	c := config(t, on.Server(), spec(t, "watch"))
	c.Keys, c.Dial, c.Private = sites[0].Keys, sites[0].Dial, true
	other, err := sites[1].Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	stray := sites[1].Keys.Lock("market")
	c.steps = func(Role) step.Observer {
		return func(ctx context.Context, _ step.Name) { other.Set(ctx, stray, 1, 0) }
	}
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), stray) {
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
			c := config(t, on.Server(), spec(t, name))
			c.Keys = testkit.Keys(t)
			c.Dial, c.Mix, c.Purchases = on.Server().Dialer(c.Keys.Prefix()), result.Mix{Sellers: 2, Buyers: 3}, 300
			gate := step.Hold(step.BeforeWrite)
			c.steps = func(r Role) step.Observer {
				if r == Buyer {
					return gate.Observe
				}
				return nil
			}
			moved := make(chan error, 1)
			go func() {
				<-gate.Reached()
				moved <- on.moveHalfway(ctx, c.Keys, gate.Open)
			}()
			row, err := Run(ctx, c)
			if err := <-moved; err != nil {
				t.Fatal(err)
			}
			if err != nil || !row.Audit.Done || !row.Audit.OK || row.Unknown != 0 || row.Bought < c.Purchases {
				t.Errorf("bought %d, %d unknown, audit %+v, %v", row.Bought, row.Unknown, row.Audit, err)
			}
			if row.Redirects == nil || *row.Redirects == 0 ||
				!slices.ContainsFunc(row.Warnings, func(w string) bool { return strings.Contains(w, "took the place of") }) {
				t.Errorf("%v redirects, warnings %v", row.Redirects, row.Warnings)
			}
			on.clean(t)
		})
	}
}

// patience: a worker goes on after what shows that a master is missing, for a while; after nothing else, and nowhere but
// where another master can take its place.
func (on cluster) patience(t *testing.T) {
	ctx := t.Context()
	c := config(t, on.Server(), spec(t, "watch"))
	c.Dial = on.Server().Dialer(c.Keys.Prefix())
	ws := connected(t, c)
	w := ws.buyers[0]
	refused := func(answer string) error { return fmt.Errorf("%w: %w", market.ErrRejected, refusal(answer)) }
	gone := fmt.Errorf("outcome of the writes is unknown: %w", io.EOF)
	for _, err := range []error{refused("CLUSTERDOWN Hash slot not served"), gone, io.EOF} {
		if end := w.fatal(ctx, err); end != nil || w.purchaser == nil {
			t.Errorf("%v ends the row: %v", err, end)
		}
	}
	for _, err := range []error{refused("OOM command not allowed"), refused("NOPERM"), errLost} {
		if end := w.fatal(ctx, err); !errors.Is(end, err) {
			t.Errorf("%v does not end the row: %v", err, end)
		}
	}
	if w.failing = time.Now().Add(-masterPatience - time.Second); !errors.Is(w.fatal(ctx, gone), errNoService) {
		t.Error("a worker waits for a master for ever")
	}
	if w.answered(market.ErrNotListed); w.fatal(ctx, gone) != nil {
		t.Error("an answer does not show that there is a master")
	}
	if err := errors.Join(ws.Close(), ws.remove(ctx)); err != nil {
		t.Error(err)
	}
	alone := connected(t, config(t, testkit.Local(t), spec(t, "watch")))
	defer alone.Close()
	if err := alone.buyers[0].fatal(ctx, gone); !errors.Is(err, gone) {
		t.Errorf("a broken connection to a server that nobody replaces: %v", err)
	}
}

// refusal is an error as servers answer it.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// moveHalfway moves the slot of a market to another master. When one account has moved, and somebody is held, it lets them
// go on, and moves the rest when the server has refused something.
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
	conn, err := on.Dial(ctx, keys.Prefix())
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

// masterDies: a replica takes the place of a market's master, and the row goes on there. What was lost with it is not
// blamed on the strategy. Locks that were held then keep others out until they expire.
func (on cluster) masterDies(t *testing.T) {
	c := config(t, on.Server(), spec(t, "fine:set-px:ttl=500ms"))
	c.Dial, c.Mix = on.Server().Dialer(c.Keys.Prefix()), mix5x5
	c.Purchases, c.Duration = 0, 6*time.Second
	gate := step.Hold(step.Written)
	c.steps = func(Role) step.Observer { return gate.Observe }
	killed := make(chan error, 1)
	go func() {
		<-gate.Reached()
		gate.Open()
		at, err := on.Master(t.Context(), c.Keys.Prefix())
		if err == nil {
			err = on.Kill(at)
		}
		killed <- err
	}()
	row, err := Run(t.Context(), c)
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	if err != nil || row.Status != result.Complete || row.Bought == 0 || row.Audit.Done && !row.Audit.OK {
		t.Errorf("%s, bought %d, audit %+v, %v", row.Status, row.Bought, row.Audit, err)
	}
	if s := row.WithoutServiceSeconds; s == nil || *s < 0.4 || *s > 5 {
		t.Errorf("without service for %v s, want the time that the cluster took", *s)
	}
	if !slices.ContainsFunc(row.Warnings, func(w string) bool { return strings.Contains(w, "took the place of") }) {
		t.Errorf("warnings: %q", row.Warnings)
	}
	if err := on.Server().Cluster().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	on.clean(t)
}
