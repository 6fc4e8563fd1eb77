package strategies_test

import (
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// BenchmarkFencing measures what fencing costs one worker whom nobody disturbs: an operation is a listing and a purchase
// of the same item. Compare on and token with off, and off with none, which is MULTI/EXEC instead of scripts. Under
// contention, measure with 'marketsim run --fencing'.
//
//	go test ./strategies -run '^$' -bench Fencing -count 10 >fencing.txt
//	benchstat -col /fencing fencing.txt
func BenchmarkFencing(b *testing.B) {
	s := backendtest.Local(b)
	for _, c := range []struct {
		lock    string
		fencing []string
	}{
		{"fenced", []string{"none", "off", "on", "token"}},
		{"set-px", []string{"none", "off", "token"}},
	} {
		for _, fencing := range c.fencing {
			b.Run("lock="+c.lock+"/fencing="+fencing, func(b *testing.B) {
				g := newStage(b, s)
				p := g.actor("fine:"+c.lock+":fencing="+fencing, s, nil).purchaser // a ledger follows no resale
				l := market.Listing{Item: g.first, Seller: seller, Price: price}
				b.ReportAllocs()
				for b.Loop() {
					_, err := p.List(g.ctx, l)
					g.must(err)
					_, err = p.Purchase(g.ctx, market.Order{Item: l.Item, Seller: l.Seller, Buyer: 3 - l.Seller, Price: price})
					g.must(err)
					l.Seller = 3 - l.Seller
				}
			})
		}
	}
}
