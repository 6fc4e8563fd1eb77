package strategies_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// colleagues are workers of one process.
func (g *fixture) colleagues(n int, spec string, through *backend.Server) []*worker {
	g.Helper()
	process := new(lock.ProcessState)
	var all []*worker
	g.Cleanup(func() { g.must(process.Close()) }) // after the workers
	for range n {
		all = append(all, g.open(spec, through, strategies.Env{Process: process}))
	}
	return all
}

// listAll lets each worker list an item of its own at the same time, the n-th
// worker the n-th item from first.
func listAll(workers []*worker, first int) []error {
	errs := make([]error, len(workers))
	var group sync.WaitGroup
	for i, w := range workers {
		l := w.fixture.listing(first + i)
		group.Go(func() {
			_, errs[i] = w.list(l)
		})
	}
	group.Wait()
	return errs
}

// Workers of one process use one connection, also after the server has
// forgotten their scripts.
func TestWorkersShareAConnection(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	g := newFixture(t, s)

	scripts := func() (connections int) {
		clients, err := g.conn.ClientList(g.ctx).Result()
		g.must(err)
		return strings.Count(clients, "cmd=evalsha") + strings.Count(clients, "cmd=eval ")
	}

	workers := g.colleagues(5, "lua-shared", s)
	for round := range 3 {
		g.must(errors.Join(listAll(workers, 5*round)...))
		if n := scripts(); n != 1 {
			g.Errorf("%d connections run scripts, want 1", n)
		}
		g.must(g.conn.ScriptFlush(g.ctx).Err())
	}

	g.sound(0, 0)
}

// An order whose context ends while it is on its way is not recalled: nobody
// knows, and it is applied later.
func TestOrderGivenUpInAPipelineIsUnknown(t *testing.T) {
	inMarket(t, func(g *fixture) {
		proxy := testkit.StartProxy(g, g.server)
		workers := g.colleagues(2, "lua-shared", proxy.Server())
		own := market.Order{Item: g.first, Seller: seller, Buyer: seller, Price: price}
		g.must(errors.Join(listAll(workers, 0)...))
		_, err := workers[1].purchase(own) // the server knows the script from here on
		g.must(err)

		order := g.offer(5)
		trap := proxy.Hold(wire.Match{Command: "evalsha"})
		ctx, cancel := context.WithCancel(g.ctx)
		go func() {
			<-trap.Reached()
			cancel()
		}()

		_, err = workers[0].purchaser.Purchase(ctx, order)
		workers[0].ledger.Purchased(order, err)
		if err == nil || market.Refused(err) || !errors.Is(err, context.Canceled) {
			g.Errorf("purchase: %v; want an unknown outcome because of %v", err, context.Canceled)
		}

		trap.Open()
		trap.Open()
		g.must(errors.Join(listAll(workers, 10)...)) // comes after it
		g.sound(1, 0)
	})
}

// A connection that breaks leaves the outcomes unknown of what was on its way, and
// nothing of it is sent again.
func TestBrokenPipelineIsUnknown(t *testing.T) {
	inMarket(t, func(g *fixture) {
		proxy := testkit.StartProxy(g, g.server)
		workers := g.colleagues(4, "lua-shared", proxy.Server())
		g.must(errors.Join(listAll(workers, 0)...))

		proxy.LoseReply("evalsha")
		unknown := 0
		for _, err := range listAll(workers, 10) {
			switch { // those that come later get a new connection
			case market.Refused(err):
				g.Errorf("list: %v; want an unknown outcome", err)
			case err != nil:
				unknown++
			}
		}

		v := g.audit()
		if !v.OK() || v.Applied != 1 || int(v.Applied+v.NotApplied) != unknown {
			g.Errorf("audit: %+v; want no problem, and of %d unknown outcomes one settled as applied",
				v, unknown)
		}
		g.must(errors.Join(listAll(workers, 20)...))
	})
}

// If nobody listens the order is not sent; when somebody does, the next one is.
func TestPipelineThatCannotBeOpenedSendsNothing(t *testing.T) {
	t.Parallel()
	s := testkit.Embedded(t)
	g := newFixture(t, s)
	fails := errors.New("no route")
	dialled := 0
	dialer := s.Dialer("").WithWrap(func(
		ctx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {

		dialled++
		if dialled == 2 {
			return nil, fails
		}
		return dial(ctx)
	})
	c, err := connect.Open(g.ctx, parse(t, "lua-shared"),
		connect.MarketServers{Market: dialer}, connect.Counters{},
		strategies.Env{Keys: g.keys})
	g.must(err)
	defer c.Close()

	l := g.listing(0)
	_, err = c.Purchaser.List(g.ctx, l)
	if !errors.Is(err, market.ErrNotSent) || !errors.Is(err, fails) {
		g.Errorf("list: %v, want %v because of %v", err, market.ErrNotSent, fails)
	}

	_, err = c.Purchaser.List(g.ctx, l)
	g.must(err)
	g.ledgers[0].Listed(l, err)
	g.sound(0, 0)
}
