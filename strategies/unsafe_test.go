package strategies_test

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// Two buyers who both decided to buy one item: unsafe sells it to both, and one payment is lost.
func TestUnsafeSellsTwiceAndLosesCoins(t *testing.T) {
	each(t, func(g *fixture) {
		order := g.offer(0)
		rival := order
		rival.Buyer = 3
		one, other := step.Hold(step.BeforeWrite), step.Hold(step.BeforeWrite)
		first, second := g.held("unsafe", one, order), g.held("unsafe", other, rival)
		one.Open()
		if got := <-first; got.err != nil {
			g.Fatal(got.err)
		}
		other.Open()
		if got := <-second; got.err != nil {
			g.Fatal(got.err)
		}
		if funds := g.funds(seller); funds != 180 {
			g.Errorf("the seller holds %d coins, want 180: paid once for two sales", funds)
		}
		v := g.audit()
		if v.ItemProblems != 1 || v.MoneyProblems != 1 || !strings.Contains(strings.Join(v.Problems, ""), "in two places") {
			g.Errorf("audit: %+v; want an item in two places and one wrong account", v)
		}
	})
}

// unsafe writes one command at a time: where it is cut decides what is lost, and the audit says so.
func TestUnsafeCutBetweenItsWrites(t *testing.T) {
	for name, c := range map[string]struct {
		cut              func(*testkit.Proxy)
		settled, refused int64
		items, money     int64
	}{
		"first write lost":          {cut: func(p *testkit.Proxy) { p.LoseCommand("hset") }, refused: 1},
		"first reply lost":          {cut: func(p *testkit.Proxy) { p.LoseReply("hset") }, refused: 1, money: 1},
		"item lost on the way":      {cut: func(p *testkit.Proxy) { p.LoseCommand("sadd") }, refused: 1, money: 2},
		"item left on the market":   {cut: func(p *testkit.Proxy) { p.LoseCommand("zrem") }, items: 1, settled: 1},
		"reply to the last is lost": {cut: func(p *testkit.Proxy) { p.LoseReply("zrem") }, settled: 1},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(g *fixture) {
				order, proxy := g.offer(0), testkit.StartProxy(g, g.server)
				a := g.open("unsafe", proxy.Server(), strategies.Env{Steps: once(step.BeforeWrite, func() { c.cut(proxy) })})
				_, err := a.purchase(order)
				g.unknown(err)
				v := g.audit()
				if v.ItemProblems != c.items || v.MoneyProblems != c.money || v.Applied != c.settled || v.NotApplied != c.refused {
					g.Errorf("audit: %+v, want %+v", v, c)
				}
			})
		})
	}
}
