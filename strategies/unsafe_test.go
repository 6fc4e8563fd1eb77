package strategies_test

import (
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
)

// unsafe writes one command at a time: where it is cut decides what is lost,
// and the audit says so.
func TestUnsafeCutBetweenItsWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut              func(*testkit.Proxy)
		settled, refused int64
		items, money     int64
	}{
		"first write lost": {cut: func(p *testkit.Proxy) {
			p.LoseCommand("hset")
		}, refused: 1},
		"first reply lost": {cut: func(p *testkit.Proxy) {
			p.LoseReply("hset")
		}, refused: 1, money: 1},
		"item lost on the way": {cut: func(p *testkit.Proxy) {
			p.LoseCommand("sadd")
		}, refused: 1, money: 2},
		"item left on the market": {cut: func(p *testkit.Proxy) {
			p.LoseCommand("zrem")
		}, items: 1, settled: 1},
		"reply to the last is lost": {cut: func(p *testkit.Proxy) {
			p.LoseReply("zrem")
		}, settled: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inMarket(t, func(g *fixture) {
				order := g.offer(0)
				proxy := testkit.StartProxy(g, g.server)

				cut := once(step.BeforeWrite, func() { c.cut(proxy) })
				a := g.open("unsafe", proxy.Server(), observing(cut))
				_, err := a.purchase(order)
				// The worker cannot know how far it came: only the audit tells.
				g.unknown(err)

				v := g.audit()
				problems := v.ItemProblems == c.items && v.MoneyProblems == c.money
				settled := v.Applied == c.settled && v.NotApplied == c.refused
				if !problems || !settled {
					g.Errorf("audit: %+v, want %+v", v, c)
				}
			})
		})
	}
}
