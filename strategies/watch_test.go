package strategies_test

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestTriesOfAPurchaseAreBounded(t *testing.T) {
	eachSpec(t, false, []string{"watch:tries=3", "watch-item:tries=3"}, func(g *fixture, spec string) {
		r, err := g.worker(spec, g.disturb(9, g.touchBuyer)).purchase(g.offer(0))
		if !errors.Is(err, market.ErrContended) || r.Retries != 3 {
			g.Errorf("%d aborts, %v; want 3, %v", r.Retries, err, market.ErrContended)
		}
		g.sound(0, 0)
	})
}

func TestWaitsBetweenTheTriesOfAPurchase(t *testing.T) {
	eachCase(t, map[string]int{
		"watch": 0, "watch:backoff=exp": 2,
		"watch:backoff=full:base=10us": 2, "watch-item:backoff=decorrelated": 2,
	}, func(g *fixture, spec string, want int) {
		waits, disturb := 0, g.disturb(2, g.touchBuyer)

		r, err := g.worker(spec, func(ctx context.Context, at step.Name) {
			if at == step.Waiting {
				waits++
			}
			disturb(ctx, at)
		}).purchase(g.offer(0))
		if err != nil || r.Retries != 2 || waits != want {
			g.Errorf("%d aborts, %d waits, %v; want 2 aborts, %d waits", r.Retries, waits, err, want)
		}

		g.sound(0, 0)
	})
}

// A wait for the next try ends with the purchase's context.
func TestWaitForTheNextTryIsCancelled(t *testing.T) {
	inMarket(t, func(g *fixture) {
		order := g.offer(0)
		ctx, cancel := context.WithCancel(g.ctx)
		disturb := g.disturb(1, g.touchBuyer)
		w := g.worker("watch:backoff=exp:base=1h:cap=1h", func(ctx context.Context, at step.Name) {
			disturb(ctx, at)
			if at == step.Waiting {
				cancel()
			}
		})

		_, err := w.purchaser.Purchase(ctx, order)
		if !errors.Is(err, market.ErrNotSent) || !errors.Is(err, context.Canceled) {
			t.Errorf("purchase: %v, want %v because of %v", err, market.ErrNotSent, context.Canceled)
		}

		g.sound(0, 0)
	})
}

// Two purchases of different items: the second aborts the first, unless both
// are of one process with a gate.
func TestGateKeepsWorkersOfOneProcessApart(t *testing.T) {
	t.Parallel()
	var one, other lock.ProcessState
	for name, c := range map[string]struct {
		spec   string
		second *lock.ProcessState
		waits  bool
	}{
		"one gate":      {"watch:gate=local", &one, true},
		"two processes": {"watch:gate=local", &other, false},
		"no gate":       {"watch", &one, false},
	} {
		t.Run(name, func(t *testing.T) {
			inMarket(t, func(g *fixture) {
				write := step.Hold(step.BeforeWrite)
				waiting := step.Hold(step.Waiting)
				waiting.Open()
				mine := g.offer(0)
				mine.Buyer = seller // who can afford both
				yours := g.offer(1)
				yours.Buyer = seller

				holder := observing(write.Observe)
				holder.Process = &one
				waiter := observing(waiting.Observe)
				waiter.Process = c.second
				first := g.open(c.spec, g.server, holder).holds(write, mine)
				second := g.open(c.spec, g.server, waiter).start(yours)

				var got outcome
				if c.waits {
					<-waiting.Reached()
				} else {
					got = <-second
				}

				write.Open()
				if r := <-first; r.err != nil || r.receipt.Retries > 0 == c.waits {
					g.Errorf("the first purchase: %d aborts, %v", r.receipt.Retries, r.err)
				}

				if c.waits {
					got = <-second
				}
				if got.err != nil || got.receipt.Retries > 0 || c.waits && got.receipt.LockWait == 0 {
					g.Errorf("the second purchase: %+v, %v; want no abort, and a wait: %t",
						got.receipt, got.err, c.waits)
				}
				g.sound(0, 0)
			})
		})
	}
}

// What aborts a purchase under watch: a listing by anyone. Under watch-item it is another
// operation on the item or the account, and not one on the market.
func TestWatchAbortsWhenWhatItWatchesChanges(t *testing.T) {
	t.Parallel()
	lists := func(g *fixture, _ market.Order) error {
		g.offer(1)
		return nil
	}
	for name, c := range map[string]struct {
		spec    string
		change  func(g *fixture, o market.Order) error
		retries int
		want    error
	}{
		"another item is listed on the market": {"watch", lists, 1, nil},
		"another item is listed":               {"watch-item", lists, 0, nil},
		"somebody else buys the item": {"watch-item", func(g *fixture, o market.Order) error {
			_, err := g.worker("watch-item", nil).purchase(rival(o))
			return err
		}, 1, market.ErrNotListed},
	} {
		t.Run(name, func(t *testing.T) {
			inMarket(t, func(g *fixture) {
				order := g.offer(0)
				gate := step.Hold(step.BeforeWrite)
				held := g.held(c.spec, gate, order)
				g.must(c.change(g, order))

				gate.Open()
				if got := <-held; !errors.Is(got.err, c.want) || got.receipt.Retries != c.retries {
					g.Errorf("%d aborts, %v; want %d, %v", got.receipt.Retries, got.err, c.retries, c.want)
				}
				g.sound(0, 0)
			})
		})
	}
}

// disturb writes to a hash or set of the market just before each of the first n
// writes of a worker.
func (g *fixture) disturb(n int, write func(ctx context.Context) error) step.Observer {
	return func(_ context.Context, at step.Name) {
		if at != step.BeforeWrite || n == 0 {
			return
		}
		n--
		g.must(write(g.ctx))
	}
}

func (g *fixture) touchBuyer(ctx context.Context) error {
	return g.conn.HSet(ctx, g.keys.User(buyer), "name", "touched").Err()
}

func (g *fixture) touchInventory(ctx context.Context) error {
	return errors.Join(
		g.conn.SAdd(ctx, g.keys.Inventory(seller), "touch").Err(),
		g.conn.SRem(ctx, g.keys.Inventory(seller), "touch").Err())
}

func TestWatchCountsAborts(t *testing.T) {
	type given struct {
		aborts int
		want   error
	}

	eachCase(t, map[string]given{
		"watch": {3, nil}, "watch:timeout=0s:list-timeout=0s": {1, market.ErrContended},
	}, func(g *fixture, spec string, c given) {
		r, err := g.worker(spec, g.disturb(c.aborts, g.touchBuyer)).purchase(g.offer(0))
		if !errors.Is(err, c.want) || r.Retries != c.aborts || r.Thrown == 0 {
			g.Errorf("purchase: %d retries, %s thrown away, %v; want %d, %v",
				r.Retries, r.Thrown, err, c.aborts, c.want)
		}

		r, err = g.worker(spec, g.disturb(c.aborts, g.touchInventory)).list(g.listing(1))
		if !errors.Is(err, c.want) || r.Retries != c.aborts {
			g.Errorf("listing: %d retries, %v; want %d, %v", r.Retries, err, c.aborts, c.want)
		}

		g.sound(0, 0)
	})
}
