package strategies_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestFencingConforms(t *testing.T) {
	t.Parallel()
	s := testkit.Best(t)
	for _, spec := range []string{
		"coarse:fenced:fencing=off", "fine:fenced+watchdog:fencing=on", "fine-wallet:fenced:fencing=on",
		"fine-wallet:fencing=token", "fine:fenced:fencing=on:idempotent=on",
		"fine:write=pipeline", "fine:set-px:write=fused",
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			suite.TestPurchaser(t, s, factory(parse(t, spec)))
		})
	}
}

// rival is another buyer's order of the same item.
func rival(o market.Order) market.Order {
	o.Buyer = 3
	return o
}

// lose takes a lock from its holder, as its expiry would.
func (g *fixture) lose(name string) {
	g.Helper()
	if n, err := g.conn.Del(g.ctx, g.keys.Lock(name)).Result(); n != 1 {
		g.Fatalf("lock %s: %d were held, %v", name, n, err)
	}
}

// ends checks how an order that was held ends when its gate is opened.
func (g *fixture) ends(who string, gate *step.Gate, held <-chan outcome, want error) {
	g.Helper()
	gate.Open()
	if got := <-held; !errors.Is(got.err, want) {
		g.Errorf("%s: %v, want %v", who, got.err, want)
	}
}

// takeover is what becomes of two orders of one item, of which the former loses
// its lock to the later.
type takeover struct {
	former, later error
	sound         bool // or the item is sold twice
}

// holds starts an order, and returns when it is held at the gate.
func (w *worker) holds(gate *step.Gate, o market.Order) <-chan outcome {
	g := w.fixture
	g.Helper()
	g.Cleanup(gate.Open)
	result := w.start(o)
	select {
	case <-gate.Reached():
	case got := <-result:
		g.Fatalf("the order did not come to the gate: %v", got.err)
	}
	return result
}

// ends lets both orders end, in either order, and judges them.
func (w takeover) ends(
	g *fixture, one, other *step.Gate, former, later <-chan outcome, laterFirst bool) {

	g.Helper()
	if laterFirst {
		g.ends("later holder", other, later, w.later)
	}
	g.ends("former holder", one, former, w.former)
	if !laterFirst {
		g.ends("later holder", other, later, w.later)
	}
	if w.sound {
		g.sound(0, 0)
	} else if v := g.audit(); v.ItemProblems != 1 ||
		!strings.Contains(fmt.Sprint(v.Problems), "in two places") {

		g.Errorf("audit: %+v; want an item in two places", v)
	}
}

// The former of two holders has lost its lock, and both buy the same item. With fencing or
// write=fused it is sold once, and without them twice.
func TestFormerHolder(t *testing.T) {
	t.Parallel()
	writes := map[string]takeover{
		"coarse:fenced":               {nil, nil, false},
		"coarse:fenced:fencing=off":   {nil, nil, false},
		"coarse:fenced:fencing=on":    {market.ErrStale, nil, true},
		"coarse:set-px:fencing=off":   {nil, nil, false},
		"coarse:set-px:fencing=token": {market.ErrStale, nil, true},
		"coarse:setnx:fencing=token":  {market.ErrStale, nil, true},
		"coarse:set-px:write=fused":   {market.ErrLockLost, nil, true},
	}

	for name, c := range map[string]struct {
		formerAt, laterAt step.Name // where they are held
		laterFirst        bool
		want              map[string]takeover
	}{
		"writes after the later one": {step.BeforeWrite, step.BeforeWrite, true, writes},
		// A market that remembers only the largest fence that has written would let both.
		"writes before the later one, which has read": {step.BeforeWrite, step.BeforeWrite, false, writes},
		// Only here does the order of fences matter: it decides who wins.
		"reads late": {step.Acquired, step.BeforeWrite, false, map[string]takeover{
			"coarse:fenced:fencing=off":   {nil, nil, false},
			"coarse:fenced:fencing=on":    {market.ErrStale, nil, true},
			"coarse:set-px:fencing=token": {nil, market.ErrStale, true},
		}},
		// That does no harm, and is let.
		"writes before the later one reads": {step.BeforeWrite, step.Acquired, false, map[string]takeover{
			"coarse:fenced:fencing=on":    {nil, market.ErrNotListed, true},
			"coarse:set-px:fencing=token": {nil, market.ErrNotListed, true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachCase(t, c.want, func(g *fixture, spec string, want takeover) {
				order, one, other := g.offer(0), step.Hold(c.formerAt), step.Hold(c.laterAt)
				former := g.held(spec, one, order)
				g.lose("market")
				want.ends(g, one, other, former, g.held(spec, other, rival(order)), c.laterFirst)
			})
		})
	}
}

// ZooKeeper and etcd lose the session of a holder whose write is on its way.
func TestFormerHolderWhoseSessionIsLost(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) []string{
		"zookeeper": func(t *testing.T) []string {
			return serverstest.ZooKeeper(t, 1).Addrs()
		},
		"etcd": func(t *testing.T) []string {
			return serverstest.Etcd(t, 1).Addrs()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs := start(t)
			play := func(t *testing.T, spec string, want takeover, laterFirst bool) {
				t.Parallel()
				g := newFixture(t, testkit.Embedded(t))
				relay := testkit.Relay(t, addrs[0])
				through := []string{relay.Addr()}
				order := g.offer(0)
				one := step.Hold(step.BeforeWrite)
				other := step.Hold(step.BeforeWrite)

				env := observing(one.Observe)
				env.Servers = lock.Servers{ZooKeeper: through, Etcd: through}
				former := g.open(spec+":ttl=3s", g.server, env).holds(one, order)
				relay.Disconnect()

				env = observing(other.Observe)
				env.Servers = lock.Servers{ZooKeeper: addrs, Etcd: addrs}
				later := g.open(spec, g.server, env).holds(other, rival(order))
				want.ends(g, one, other, former, later, laterFirst)
			}

			for fencing, want := range map[string]takeover{
				"off": {nil, nil, false},
				"on":  {market.ErrStale, nil, true},
			} {
				for _, laterFirst := range []bool{true, false} {
					t.Run(fmt.Sprintf("fencing=%s/later first %t", fencing, laterFirst), func(t *testing.T) {
						play(t, "coarse:"+name+":fencing="+fencing, want, laterFirst)
					})
				}
			}
		})
	}
}

// A late listing would put an item on the market again that has been sold.
func TestFormerHolderListsLate(t *testing.T) {
	eachCase(t, map[string]error{
		"fine:fenced:fencing=off":   nil,
		"fine:fenced:fencing=on":    market.ErrStale,
		"fine:set-px:fencing=token": market.ErrStale,
		"fine:set-px:write=fused":   market.ErrLockLost,
	}, func(g *fixture, spec string, want error) {
		gate := step.Hold(step.BeforeWrite)
		former := make(chan outcome, 1)
		g.Cleanup(gate.Open)
		a := g.worker(spec, gate.Observe)
		l := g.listing(0)
		go func() {
			r, err := a.list(l)
			former <- outcome{r, err}
		}()
		<-gate.Reached()

		g.lose("1")
		later := g.worker(spec, nil)
		if _, err := later.list(l); err != nil {
			g.Error(err)
		}
		order := market.Order{Item: l.Item, Seller: seller, Buyer: buyer, Price: price}
		if _, err := later.purchase(order); err != nil {
			g.Error(err)
		}

		g.ends("former holder", gate, former, want)
		if v := g.audit(); v.OK() != (want != nil) {
			g.Errorf("audit: %+v", v)
		}
	})
}

// Of the two locks of fine-wallet either may be lost. Here it is the account's,
// and two orders spend from it.
func TestEachLockIsFenced(t *testing.T) {
	eachCase(t, map[string]error{
		"fine-wallet:fenced:fencing=off": nil, "fine-wallet:fenced:fencing=on": market.ErrStale,
		"fine-wallet:set-px:fencing=token": market.ErrStale,
	}, func(g *fixture, spec string, want error) {
		order, another, gate := g.offer(0), g.offer(1), step.Hold(step.BeforeWrite)
		former := g.held(spec, gate, order)
		g.lose("users:2")

		if _, err := g.worker(spec, nil).purchase(another); err != nil {
			g.Errorf("later holder: %v", err)
		}

		g.ends("former holder", gate, former, want)
		if v := g.audit(); v.OK() != (want != nil) {
			g.Errorf("audit: %+v", v)
		}
	})
}

// Fences are compared as the numbers they are, however large: Lua's own are
// exact up to 2^53 only.
func TestFencesAreComparedExactly(t *testing.T) {
	inMarket(t, func(g *fixture) {
		for _, c := range []struct {
			before     int64 // the fence of the holder before this one, whose own is one larger
			registered int64
			want       error
		}{
			{9, 9, nil},
			{9, 10, nil},
			{9, 11, market.ErrStale},
			{9, 100, market.ErrStale},
			{99, 98, nil},
			{1<<53 - 1, 1<<53 + 1, market.ErrStale},
			{1<<53 + 1, 1 << 53, nil},
			{9, 1<<63 - 1, market.ErrStale},
		} {
			g := newFixture(g, g.server)
			order := g.offer(0)
			g.must(g.conn.Set(g.ctx, g.keys.Lock("market")+":fence", c.before, 0).Err())
			g.must(g.conn.Set(g.ctx, g.keys.Fence("market"), c.registered, 0).Err())

			if _, err := g.worker("coarse:fenced:fencing=on", nil).purchase(order); !errors.Is(err, c.want) {
				g.Errorf("with %d registered, holder %d: %v, want %v", c.registered, c.before+1, err, c.want)
			}
			g.sound(0, 0)
		}
	})
}
