package strategies_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/markettest"
	"github.com/marketsim/marketsim/market/step"
)

func TestFencingConforms(t *testing.T) {
	for _, spec := range []string{
		"coarse:fenced:fencing=off", "coarse:fenced:fencing=on", "coarse:set-px:fencing=token",
		"fine:fenced+watchdog:fencing=on", "fine-wallet:fenced:fencing=on", "fine-wallet:fencing=token",
		"fine:fenced:fencing=on:idempotent=on", "fine:write=pipeline", "fine:set-px:write=fused",
		"coarse:set-px:write=fused",
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			factory := factory(parse(t, spec))
			testkit.Each(t, func(t *testing.T, s *backend.Server) { markettest.Run(t, s, factory) })
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

// soldTwice checks that the audit finds the one item sold twice.
func (g *fixture) soldTwice() {
	g.Helper()
	if v := g.audit(); v.ItemProblems != 1 || !strings.Contains(strings.Join(v.Problems, ""), "sold twice") {
		g.Errorf("audit: %+v; want an item sold twice", v)
	}
}

// What becomes of two orders of one item, of which the former loses its lock to the later.
var takeovers = []struct {
	spec   string
	former error // what the former holder gets when it goes on
	later  error
	sound  bool
}{
	{"coarse:fenced", nil, nil, false},
	{"coarse:fenced:fencing=off", nil, nil, false},
	{"coarse:fenced:fencing=on", market.ErrStale, nil, true},
	{"coarse:set-px:fencing=off", nil, nil, false},
	{"coarse:set-px:fencing=token", market.ErrStale, nil, true},
	{"coarse:setnx:fencing=token", market.ErrStale, nil, true},
	{"coarse:set-px:write=fused", market.ErrLockLost, nil, true},
}

func TestFormerHolderWritesAfterTheLaterOne(t *testing.T) {
	for _, c := range takeovers {
		t.Run(c.spec, func(t *testing.T) {
			testkit.Each(t, func(t *testing.T, s *backend.Server) {
				g := newFixture(t, s)
				order, gate := g.offer(0), step.Hold(step.BeforeWrite)
				former := g.held(c.spec, gate, order)
				g.lose("market")
				if _, err := g.worker(c.spec, s, nil).purchase(rival(order)); !errors.Is(err, c.later) {
					t.Errorf("later holder: %v, want %v", err, c.later)
				}
				g.ends("former holder", gate, former, c.former)
				g.judged(c.sound)
			})
		})
	}
}

// The former holder writes before the later one has written, but after it has read. A market that remembers only the
// largest fence that has written would let both.
func TestFormerHolderWritesBeforeTheLaterOne(t *testing.T) {
	for _, c := range takeovers {
		t.Run(c.spec, func(t *testing.T) {
			testkit.Each(t, func(t *testing.T, s *backend.Server) {
				g := newFixture(t, s)
				order, one, other := g.offer(0), step.Hold(step.BeforeWrite), step.Hold(step.BeforeWrite)
				former := g.held(c.spec, one, order)
				g.lose("market")
				later := g.held(c.spec, other, rival(order))
				g.ends("former holder", one, former, c.former)
				g.ends("later holder", other, later, c.later)
				g.judged(c.sound)
			})
		})
	}
}

func (g *fixture) judged(sound bool) {
	g.Helper()
	if sound {
		g.sound(0, 0)
	} else {
		g.soldTwice()
	}
}

// The former holder reads for the first time when the later one has. Only here does the order of fences matter: it
// decides who wins.
func TestFormerHolderReadsLate(t *testing.T) {
	for _, c := range []struct {
		spec          string
		former, later error
		sound         bool
	}{
		{"coarse:fenced:fencing=off", nil, nil, false},
		{"coarse:fenced:fencing=on", market.ErrStale, nil, true},
		{"coarse:set-px:fencing=token", nil, market.ErrStale, true},
	} {
		t.Run(c.spec, func(t *testing.T) {
			testkit.Each(t, func(t *testing.T, s *backend.Server) {
				g := newFixture(t, s)
				order, one, other := g.offer(0), step.Hold(step.Acquired), step.Hold(step.BeforeWrite)
				former := g.held(c.spec, one, order)
				g.lose("market")
				later := g.held(c.spec, other, rival(order))
				g.ends("former holder", one, former, c.former)
				g.ends("later holder", other, later, c.later)
				g.judged(c.sound)
			})
		})
	}
}

// A former holder that writes before the later one has read does no harm, and is let.
func TestFormerHolderWritesBeforeTheLaterOneReads(t *testing.T) {
	for _, spec := range []string{"coarse:fenced:fencing=on", "coarse:set-px:fencing=token"} {
		t.Run(spec, func(t *testing.T) {
			testkit.Each(t, func(t *testing.T, s *backend.Server) {
				g := newFixture(t, s)
				order, one, other := g.offer(0), step.Hold(step.BeforeWrite), step.Hold(step.Acquired)
				former := g.held(spec, one, order)
				g.lose("market")
				later := g.held(spec, other, rival(order))
				g.ends("former holder", one, former, nil)
				g.ends("later holder", other, later, market.ErrNotListed)
				g.sound(0, 0)
			})
		})
	}
}

// A late listing would put an item on the market again that has been sold.
func TestFormerHolderListsLate(t *testing.T) {
	for spec, want := range map[string]error{
		"fine:fenced:fencing=off": nil, "fine:fenced:fencing=on": market.ErrStale, "fine:set-px:fencing=token": market.ErrStale,
		"fine:set-px:write=fused": market.ErrLockLost,
	} {
		t.Run(spec, func(t *testing.T) {
			testkit.Each(t, func(t *testing.T, s *backend.Server) {
				g := newFixture(t, s)
				gate, former := step.Hold(step.BeforeWrite), make(chan outcome, 1)
				t.Cleanup(gate.Open)
				a, l := g.worker(spec, s, gate.Observe), market.Listing{Item: g.first, Seller: seller, Price: price}
				go func() {
					r, err := a.list(l)
					former <- outcome{r, err}
				}()
				<-gate.Reached()
				g.lose("1")
				later := g.worker(spec, s, nil)
				if _, err := later.list(l); err != nil {
					t.Error(err)
				}
				if _, err := later.purchase(market.Order{Item: l.Item, Seller: seller, Buyer: buyer, Price: price}); err != nil {
					t.Error(err)
				}
				g.ends("former holder", gate, former, want)
				if v := g.audit(); v.OK() != (want != nil) {
					t.Errorf("audit: %+v", v)
				}
			})
		})
	}
}

// Of the two locks of fine-wallet either may be lost. Here it is the account's, and two orders spend from it.
func TestEachLockIsFenced(t *testing.T) {
	for spec, want := range map[string]error{
		"fine-wallet:fenced:fencing=off": nil, "fine-wallet:fenced:fencing=on": market.ErrStale,
		"fine-wallet:set-px:fencing=token": market.ErrStale,
	} {
		t.Run(spec, func(t *testing.T) {
			testkit.Each(t, func(t *testing.T, s *backend.Server) {
				g := newFixture(t, s)
				order, another, gate := g.offer(0), g.offer(1), step.Hold(step.BeforeWrite)
				former := g.held(spec, gate, order)
				g.lose("users:2")
				if _, err := g.worker(spec, s, nil).purchase(another); err != nil {
					t.Errorf("later holder: %v", err)
				}
				g.ends("former holder", gate, former, want)
				if v := g.audit(); v.OK() != (want != nil) {
					t.Errorf("audit: %+v", v)
				}
			})
		})
	}
}

// Fences are compared as the numbers they are, however large: Lua's own are exact up to 2^53 only.
func TestFencesAreComparedExactly(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
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
			g := newFixture(t, s)
			order := g.offer(0)
			g.must(g.conn.Set(g.ctx, g.keys.Lock("market")+":fence", c.before, 0).Err())
			g.must(g.conn.Set(g.ctx, g.keys.Fence("market"), c.registered, 0).Err())
			if _, err := g.worker("coarse:fenced:fencing=on", s, nil).purchase(order); !errors.Is(err, c.want) {
				t.Errorf("with %d registered, holder %d: %v, want %v", c.registered, c.before+1, err, c.want)
			}
			g.sound(0, 0)
		}
	})
}

// BenchmarkFencing measures what fencing costs one worker whom nobody disturbs: an operation is a listing and a
// purchase of the same item. Compare on and token with off, and off with none, which is MULTI/EXEC instead of scripts.
// Under contention, measure with 'marketsim run --fencing'.
//
//	go test ./strategies -run '^$' -bench Fencing -count 10 >fencing.txt
//	benchstat -col /fencing fencing.txt
func BenchmarkFencing(b *testing.B) {
	s := testkit.Local(b)
	for _, c := range []struct {
		lock    string
		fencing []string
	}{
		{"fenced", []string{"none", "off", "on", "token"}},
		{"set-px", []string{"none", "off", "token"}},
	} {
		for _, fencing := range c.fencing {
			b.Run("lock="+c.lock+"/fencing="+fencing, func(b *testing.B) {
				g := newFixture(b, s)
				p := g.worker("fine:"+c.lock+":fencing="+fencing, s, nil).purchaser // a ledger follows no resale
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
