package main

import (
	"context"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/spread"
)

// Strategies are run in the layout that they are made for, and what is wrong is said before anything starts.
func TestLayoutIsTheStrategys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"run", "--strategy", "spread-intents"}, []string{"--backend cluster --layout spread"}},
		{[]string{"compare", "fine", "spread-locks"}, []string{"--backend cluster --layout spread"}},
		{[]string{"run", "--layout", "spread", "--strategy", "fine"}, []string{"CROSSSLOT", "spread-locks and spread-intents"}},
		{[]string{"run", "--layout", "wide", "--strategy", "fine"}, []string{"--layout wide: want slot or spread"}},
		{[]string{"run", "--layout", "spread", "--strategy", "spread-intents", "--hot", "1", "--mix", "0x2"}, []string{"--hot"}},
		{[]string{"run", "--layout", "spread", "--strategy", "spread-intents", "--prefix", "a{b}:"}, []string{"without braces"}},
		{[]string{"run", "--layout", "spread", "--strategy", "spread-intents", "--backend", "embedded"},
			[]string{"no Redis Cluster", "--backend cluster", "spread-locks and spread-intents"}},
	} {
		marketsim(t, c.args...).exits(t, exitUsage).says(t, c.says...)
	}
}

// A market whose keys share no slot is run on a cluster of the user's, kept, and cleaned up, with what a client has left
// under way.
func TestSpreadLayoutOnACluster(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t)
	url := "redis://" + cluster.Addrs()[0]
	keys := func() (found int) {
		for _, master := range cluster.Server().Cluster().Masters() {
			conn, err := backend.Dial(t.Context(), master)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			found += len(conn.Keys(t.Context(), "*").Val())
		}
		return found
	}
	run := func(args ...string) outcome {
		t.Helper()
		return marketsim(t, short(append([]string{"run", "--layout", "spread", "--mix", "2x2", "--redis", url}, args...)...)...)
	}
	run("--strategy", "spread-locks,spread-intents").exits(t, exitFine).says(t, "audit ok", "keys: under marketsim:")
	if n := keys(); n != 0 {
		t.Fatalf("%d keys are left", n)
	}
	run("--strategy", "spread-intents", "--keep", "--prefix", "mine:").exits(t, exitFine)
	run("--strategy", "spread-intents", "--prefix", "mine:").exits(t, exitEnvironment).says(t, "already holds keys")

	nodes := cluster.Server().Cluster().Nodes(backend.Dial)
	defer nodes.Close()
	mine, err := market.NewKeys("mine:")
	if err != nil {
		t.Fatal(err)
	}
	left := leftUnderWay(t.Context(), t, nodes, mine)
	marketsim(t, "clean", "--prefix", "mine:", "--redis", url).exits(t, exitFine).says(t, "removed")
	if n := keys(); n != 0 {
		t.Errorf("%d keys are left, after %s was under way", n, left.ID())
	}
}

// leftUnderWay leaves an operation on the first item that is listed.
func leftUnderWay(ctx context.Context, t *testing.T, slots spread.Slots, keys market.Keys) spread.Operation {
	t.Helper()
	trade := spread.Trade{Slots: slots, Keys: keys}
	for id := market.ItemID(1); id <= market.BatchSize; id++ {
		item, err := trade.Read(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		op := spread.Operation{Incarnation: "A", Sequence: 1, Item: id, Buyer: 3, Seller: item.Owner, Price: item.Price}
		if !item.Listed {
			continue
		}
		if ok, err := trade.Begin(ctx, op, item.Version); err != nil || !ok {
			t.Fatalf("%v, %v", ok, err)
		}
		return op
	}
	t.Fatal("nothing is listed")
	return spread.Operation{}
}
