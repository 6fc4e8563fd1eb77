package strategies_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/spread"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

var errDied = errors.New("the client died")

func everySpread() (names []string) {
	for _, s := range strategies.Spread() {
		names = append(names, s.Name)
	}
	return names
}

// Operations one after the other do what they do on the reference, whoever makes them.
func TestSpreadMatchesReference(t *testing.T) {
	open, restart := reused(onOneServer(t, testkit.Local(t)))
	for _, spec := range everySpread() {
		t.Run(spec, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				restart()
				g := newSlotted(t, open)
				workers := []*trader{g.trader(spec, g.open(), nil), g.trader(spec, g.open(), nil)}
				reference := market.NewReference(g.opening)
				reference.Mint(seller)
				for range rapid.IntRange(5, 30).Draw(rt, "operations") {
					w := workers[rapid.IntRange(0, 1).Draw(rt, "worker")]
					o := market.Order{
						Item:   market.ItemID(rapid.IntRange(1, 2).Draw(rt, "item")),
						Seller: market.UserID(rapid.IntRange(1, 4).Draw(rt, "seller")),
						Price:  rapid.SampledFrom([]int64{30, 80, 101}).Draw(rt, "price"),
					}
					var got, want error
					if rapid.Bool().Draw(rt, "order") {
						o.Buyer = market.UserID(rapid.IntRange(1, 4).Draw(rt, "buyer"))
						got = w.purchase(o)
						_, want = reference.Purchase(g.ctx, o)
					} else {
						got = w.list(o.Item, o.Seller, o.Price)
						_, want = reference.List(g.ctx, market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price})
					}
					if market.Reason(got) != market.Reason(want) || (got == nil) != (want == nil) {
						rt.Fatalf("%+v: %v, the reference says %v", o, got, want)
					}
				}
				end, err := spread.ReadSnapshot(g.ctx, g.slots, g.keys, g.opening.Accounts, fewItems)
				g.must(err)
				want := reference.Snapshot()
				maps.DeleteFunc(want.Inventory[seller], func(item market.ItemID, _ bool) bool { return item > fewItems })
				if len(want.Inventory[seller]) == 0 {
					delete(want.Inventory, seller)
				}
				if diff := cmp.Diff(want, end); diff != "" {
					rt.Fatalf("the market does not end as the reference (-want +got):\n%s", diff)
				}
				g.sound(0, 0)
			})
		})
	}
}

// intentSteps are those before each write of a purchase by spread-intents, and where two helpers meet then.
var intentSteps = []struct{ held, meet step.Name }{
	{step.BeforeWrite, step.BeforeWrite}, // nobody helps: they come first
	{step.BeforePay, step.BeforeDecide},
	{step.BeforeDecide, step.BeforeDecide},
	{step.BeforeCredit, step.BeforeCredit},
	{step.BeforeEnd, step.BeforeCredit},
}

// A client is held before each of its writes. Two others, who want the same item, finish its purchase at the same time. The
// item is sold on and comes back to its first seller, who offers it at the same price again. Then the client wakes up.
func TestSpreadIntentsAreHelped(t *testing.T) {
	open, restart := reused(onCluster(t, testkit.Cluster(t), nil))
	for _, at := range intentSteps {
		t.Run(string(at.held), func(t *testing.T) {
			restart()
			g := newSlotted(t, open)
			o := g.offer(0)
			sleeper := step.Hold(at.held)
			t.Cleanup(sleeper.Open)
			slept := g.trader("spread-intents", g.open(), sleeper.Observe).start(o)
			<-sleeper.Reached()

			var gates []*step.Gate
			var helped []<-chan error
			for _, id := range []market.UserID{3, 4} {
				gate, wanted := step.Hold(at.meet), o
				t.Cleanup(gate.Open)
				wanted.Buyer = id
				gates, helped = append(gates, gate), append(helped, g.trader("spread-intents", g.open(), gate.Observe).start(wanted))
				<-gate.Reached()
			}
			owner := buyer
			for i, gate := range gates {
				gate.Open()
				switch err := <-helped[i]; {
				case err == nil:
					owner = market.UserID(3 + i)
				case !errors.Is(err, market.ErrNotListed):
					t.Errorf("helper %d: %v", i, err)
				}
			}
			if (owner == buyer) != (at.held != step.BeforeWrite) {
				t.Errorf("the item is user %d's", owner)
			}
			w := g.trader("spread-intents", g.open(), nil)
			g.must(w.list(o.Item, owner, 1))
			g.must(w.purchase(market.Order{Item: o.Item, Seller: owner, Buyer: seller, Price: 1}))
			g.must(w.list(o.Item, seller, price))

			sleeper.Open()
			g.must(<-slept) // held before BEGIN it buys what is offered now, else it has bought before
			g.sound(0, 0)
		})
	}
}

// dying ends the goroutine of a client at a step, the n-th time that it comes there, from 1.
func dying(at step.Name, n int) step.Observer {
	return func(_ context.Context, name step.Name) {
		if name == at {
			if n--; n == 0 {
				runtime.Goexit()
			}
		}
	}
}

// A client dies before each write of its purchase, and then who finishes what it left, before each write, too.
func TestSpreadIntentsSurviveDeath(t *testing.T) {
	open, restart := reused(onOneServer(t, testkit.Local(t)))
	for _, client := range intentSteps {
		for _, helper := range intentSteps {
			restart()
			g := newSlotted(t, open)
			o := g.offer(0)
			if err := <-g.trader("spread-intents", g.open(), dying(client.held, 1)).start(o); err != errDied {
				t.Fatalf("before %s: %v", client.held, err)
			}
			wanted := o
			wanted.Buyer = 3
			died := <-g.trader("spread-intents", g.open(), dying(helper.held, 1)).start(wanted)
			v := g.audit()
			if left := g.endAll(); left > 0 && v.OK() {
				t.Errorf("%s and then %s: %d operations are left, and an audit finds nothing", client.held, helper.held, left)
			}
			applied, unknown := int64(0), int64(1)
			if client.held != step.BeforeWrite {
				applied++ // whoever came next finished it
			}
			if errors.Is(died, errDied) {
				unknown++
			}
			if g.endAll() != 0 {
				t.Error("operations are left after they were ended")
			}
			v = g.audit()
			if !v.OK() || v.Applied+v.NotApplied != unknown || applied == 1 && v.Applied != 1 {
				t.Errorf("%s and then %s (%v): %+v", client.held, helper.held, died, v)
			}
		}
	}
}

// A client of spread-locks that dies between two writes loses coins, or the item's owner is paid for what is still theirs:
// the control is caught. Nobody can mend it, because nothing says what was under way.
func TestSpreadLocksDieBetweenWrites(t *testing.T) {
	open := onCluster(t, testkit.Cluster(t), nil)
	for writes, sum := range map[int]int64{1: 4*100 - price, 2: 4 * 100} {
		g := newSlotted(t, open)
		o := g.offer(0)
		if err := <-g.trader("spread-locks", g.open(), dying(step.BetweenWrites, writes)).start(o); err != errDied {
			t.Fatal(err)
		}
		g.endAll()
		if v := g.audit(); v.MoneyProblems == 0 || v.Funds != sum || v.NotApplied != 1 {
			t.Errorf("after %d writes: %+v; want problems, and %d coins", writes, v, sum)
		}
	}
}

// Every command of a listing and of a purchase, and every reply, is lost once. The client knows what became of it.
func TestSpreadIntentsKnowWhatWasLost(t *testing.T) {
	cluster := testkit.Cluster(t)
	through := map[string]*wire.Proxy{}
	for _, addr := range cluster.Addrs() {
		p, err := wire.StartRedis(backend.Target{Network: "tcp", Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		through[addr] = p
	}
	open := onCluster(t, cluster, through)
	g := newSlotted(t, open)
	w := g.trader("spread-intents", open(), nil)
	for _, script := range []string{"Put the item", "Store the operation", "Debit the account", "Decide the operation",
		"Credit the account", "Remove the operation"} {
		for what, lose := range map[string]func(*wire.Proxy, wire.Match) *wire.Trap{
			"command": (*wire.Proxy).LoseCommand, "reply": (*wire.Proxy).LoseReply,
		} {
			flush(t, through) // so that each script comes as an EVAL with its text
			caught := make(chan struct{}, len(through))
			for _, p := range through {
				trap := lose(p, wire.Match{Command: "eval", Text: script})
				t.Cleanup(trap.Open)
				go func() {
					select {
					case <-trap.Reached():
						caught <- struct{}{}
					case <-t.Context().Done():
					}
				}()
			}
			g.must(w.list(g.first, seller, 10))
			g.must(w.purchase(market.Order{Item: g.first, Seller: seller, Buyer: buyer, Price: 10}))
			select {
			case <-caught:
			case <-time.After(10 * time.Second):
				t.Fatalf("%q: no %s was lost", script, what)
			}
			g.must(w.list(g.first, buyer, 10))
			g.must(w.purchase(market.Order{Item: g.first, Seller: buyer, Buyer: seller, Price: 10}))
			g.sound(0, 0)
		}
	}
}

// flush makes the servers forget their scripts.
func flush(t *testing.T, all map[string]*wire.Proxy) {
	t.Helper()
	for _, p := range all {
		conn, err := backend.Dial(t.Context(), p.Target())
		if err == nil {
			err = errors.Join(conn.ScriptFlush(t.Context()).Err(), conn.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The slots of a purchase move to other masters, each while the client is about to write there.
func TestSpreadIntentsFollow(t *testing.T) {
	cluster := testkit.Cluster(t)
	open := onCluster(t, cluster, nil)
	for _, spec := range everySpread() {
		g := newSlotted(t, open)
		o := g.offer(0)
		moves := map[step.Name]string{
			step.BeforeWrite: g.keys.Item(o.Item), step.BeforePay: g.keys.Account(buyer), step.BetweenWrites: g.keys.Account(seller),
			step.BeforeDecide: g.keys.Item(o.Item), step.BeforeCredit: g.keys.Account(seller),
		}
		err := g.trader(spec, open(), func(ctx context.Context, at step.Name) {
			key, ok := moves[at]
			if !ok {
				return
			}
			delete(moves, at)
			to, err := cluster.OtherMaster(ctx, key)
			if err == nil {
				err = cluster.MoveSlot(ctx, key, to)
			}
			if err != nil {
				t.Error(err)
			}
		}).purchase(o)
		g.must(err)
		if len(moves) > 3 { // of five, a strategy has two or four steps
			t.Errorf("%s: these slots have not moved: %v", spec, moves)
		}
		g.sound(0, 0)
	}
}

// All keys are on the nodes while there is a market, and none afterwards.
func TestSpreadMarketIsRemoved(t *testing.T) {
	cluster := testkit.Cluster(t)
	connect := onCluster(t, cluster, nil)
	keys, err := market.NewKeys("test:removed:")
	if err != nil {
		t.Fatal(err)
	}
	slots, opening := connect(), market.Opening{Accounts: 2, Funds: 100, Strategy: "spread-locks"}
	spec := parse(t, "spread-locks")
	if err := spread.Seed(t.Context(), slots, keys, opening); err != nil {
		t.Fatal(err)
	}
	if err := spread.Seed(t.Context(), slots, keys, opening); !errors.Is(err, market.ErrOccupied) {
		t.Errorf("a second market: %v", err)
	}
	first, err := spread.Mint(t.Context(), slots, new(market.Minter), keys, seller)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, spec, strategies.Env{Slots: slots, Keys: keys})
	if _, err := p.List(t.Context(), market.Listing{Item: first, Seller: seller, Price: 1}); err != nil {
		t.Fatal(err)
	}
	if missing, err := spread.Missing(t.Context(), slots, keys, opening); err != nil || missing != "" {
		t.Errorf("%q is missing (%v)", missing, err)
	}
	masters := map[*redis.Client]bool{}
	for item := range market.ItemID(market.BatchSize) {
		rdb, err := slots.For(t.Context(), keys.Item(item))
		if err != nil {
			t.Fatal(err)
		}
		masters[rdb] = true
	}
	count := func() (found int) {
		for rdb := range masters {
			for it := rdb.Scan(t.Context(), 0, keys.Prefix()+"*", 1000).Iterator(); it.Next(t.Context()); {
				found++
			}
		}
		return found
	}
	const made = market.BatchSize + 2 + 2 // accounts, note, hint
	if n := count(); n != made || len(masters) != 3 {
		t.Errorf("%d keys on %d masters, want %d on 3", n, len(masters), made)
	}
	note, err := slots.For(t.Context(), keys.Run())
	if err != nil {
		t.Fatal(err)
	}
	noted, err := market.ReadMade(t.Context(), note, keys)
	if err != nil {
		t.Fatal(err)
	}
	removed, err := spread.Remove(t.Context(), slots, keys, noted, spec.LockKeys(keys, noted))
	if err != nil || removed != made || count() != 0 {
		t.Errorf("removed %d of %d, %d are left: %v", removed, made, count(), err)
	}
}
