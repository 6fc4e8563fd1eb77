package strategies_test

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestTriesOfAPurchaseAreBounded(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for _, strategy := range []string{"watch", "watch-item"} {
			g := newFixture(t, s)
			order := g.offer(0)
			r, err := g.worker(strategy+":tries=3", s, g.disturb(9, g.touchBuyer)).purchase(order)
			if !errors.Is(err, market.ErrContended) || r.Retries != 3 {
				t.Errorf("%s: %d aborts, %v; want 3, %v", strategy, r.Retries, err, market.ErrContended)
			}
			g.sound(0, 0)
		}
	})
}

func TestWaitsBetweenTheTriesOfAPurchase(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for spec, want := range map[string]int{
			"watch": 0, "watch:backoff=exp": 2, "watch:backoff=full:base=10us": 2, "watch-item:backoff=decorrelated": 2,
		} {
			g, waits := newFixture(t, s), 0
			disturb := g.disturb(2, g.touchBuyer)
			r, err := g.worker(spec, s, func(ctx context.Context, at step.Name) {
				if at == step.Waiting {
					waits++
				}
				disturb(ctx, at)
			}).purchase(g.offer(0))
			if err != nil || r.Retries != 2 || waits != want {
				t.Errorf("%s: %d aborts, %d waits, %v; want 2 aborts, %d waits", spec, r.Retries, waits, err, want)
			}
			g.sound(0, 0)
		}
	})
}

// A wait for the next try ends with the purchase's context.
func TestWaitForTheNextTryIsCancelled(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		g := newFixture(t, s)
		order := g.offer(0)
		ctx, cancel := context.WithCancel(g.ctx)
		disturb := g.disturb(1, g.touchBuyer)
		w := g.worker("watch:backoff=exp:base=1h:cap=1h", s, func(ctx context.Context, at step.Name) {
			disturb(ctx, at)
			if at == step.Waiting {
				cancel()
			}
		})
		if _, err := w.purchaser.Purchase(ctx, order); !errors.Is(err, market.ErrNotSent) || !errors.Is(err, context.Canceled) {
			t.Errorf("purchase: %v, want %v because of %v", err, market.ErrNotSent, context.Canceled)
		}
		g.sound(0, 0)
	})
}

// inProcess opens a worker that shares a process with others.
func (g *fixture) inProcess(p *lock.Process, spec string, steps step.Observer) *worker {
	g.Helper()
	w := g.worker("unsafe", g.server, nil)
	w.purchaser = open(g, parse(g, spec), strategies.Env{Redis: w.conn.Client, Keys: g.keys, Steps: steps, Process: p})
	return w
}

// Two purchases of different items: the second aborts the first, unless both are of one process with a gate.
func TestGateKeepsWorkersOfOneProcessApart(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		var one, other lock.Process
		for _, c := range []struct {
			spec          string
			first, second *lock.Process
			waits         bool
		}{
			{"watch:gate=local", &one, &one, true}, {"watch:gate=local", &one, &other, false}, {"watch", &one, &one, false},
		} {
			g := newFixture(t, s)
			write, waiting := step.Hold(step.BeforeWrite), step.Hold(step.Waiting)
			waiting.Open()
			t.Cleanup(write.Open)
			cheap := func(n int) market.Order { o := g.offer(n); o.Buyer = seller; return o }
			mine, yours := cheap(0), cheap(1)
			first := g.inProcess(c.first, c.spec, write.Observe).start(mine)
			<-write.Reached()
			second := g.inProcess(c.second, c.spec, waiting.Observe).start(yours)
			if c.waits {
				<-waiting.Reached()
			} else if got := <-second; got.err != nil {
				t.Errorf("%s: the second purchase: %v", c.spec, got.err)
			}
			write.Open()
			got := <-first
			if aborted := got.receipt.Retries > 0; got.err != nil || aborted == c.waits {
				t.Errorf("%s: the first purchase: %d aborts, %v", c.spec, got.receipt.Retries, got.err)
			}
			if c.waits {
				if got := <-second; got.err != nil || got.receipt.Retries > 0 || got.receipt.LockWait == 0 {
					t.Errorf("%s: the second purchase: %+v, %v; want a wait and no abort", c.spec, got.receipt, got.err)
				}
			}
			g.sound(0, 0)
		}
	})
}

// What aborts a purchase under watch-item: another operation on the item or the account, and not one on the market.
func TestWatchItemAbortsWhenItsItemChanges(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		g := newFixture(t, s)
		order, gate := g.offer(0), step.Hold(step.BeforeWrite)
		held := g.held("watch-item", gate, order)
		g.offer(1)
		gate.Open()
		if got := <-held; got.err != nil || got.receipt.Retries != 0 {
			t.Errorf("another item is listed: %d aborts, %v; want none", got.receipt.Retries, got.err)
		}
		g = newFixture(t, s)
		order, gate = g.offer(0), step.Hold(step.BeforeWrite)
		held = g.held("watch-item", gate, order)
		if _, err := g.worker("watch-item", s, nil).purchase(rival(order)); err != nil {
			t.Error(err)
		}
		gate.Open()
		if got := <-held; !errors.Is(got.err, market.ErrNotListed) || got.receipt.Retries != 1 {
			t.Errorf("somebody else buys the item: %d aborts, %v; want 1, %v", got.receipt.Retries, got.err, market.ErrNotListed)
		}
		g.sound(0, 0)
	})
}
