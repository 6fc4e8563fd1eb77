package strategies_test

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// disturb writes to a hash or set of the market just before each of the first n writes of a worker.
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
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		const aborts = 3
		g := newFixture(t, s)
		order := g.offer(0)
		r, err := g.worker("watch", s, g.disturb(aborts, g.touchBuyer)).purchase(order)
		if err != nil || r.Retries != aborts || r.Thrown == 0 {
			t.Errorf("purchase: %d retries, %s thrown away, %v; want %d", r.Retries, r.Thrown, err, aborts)
		}
		listing := market.Listing{Item: order.Item + 1, Seller: seller, Price: price}
		r, err = g.worker("watch", s, g.disturb(aborts, g.touchInventory)).list(listing)
		if err != nil || r.Retries != aborts {
			t.Errorf("listing: %d retries, %v; want %d", r.Retries, err, aborts)
		}
		g.sound(0, 0)
	})
}

func TestWatchGivesUpInTime(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		g := newFixture(t, s)
		order := g.offer(0)
		r, err := g.worker("watch:timeout=0s", s, g.disturb(1, g.touchBuyer)).purchase(order)
		if !errors.Is(err, market.ErrContended) || r.Retries != 1 {
			t.Errorf("purchase: %d retries, %v; want 1, %v", r.Retries, err, market.ErrContended)
		}
		listing := market.Listing{Item: order.Item + 1, Seller: seller, Price: price}
		r, err = g.worker("watch:list-timeout=0s", s, g.disturb(1, g.touchInventory)).list(listing)
		if !errors.Is(err, market.ErrContended) || r.Retries != 1 {
			t.Errorf("listing: %d retries, %v; want 1, %v", r.Retries, err, market.ErrContended)
		}
		g.sound(0, 0)
	})
}

// A listing by anyone aborts a purchase.
func TestWatchAbortsWhenTheMarketChanges(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		g := newFixture(t, s)
		order := g.offer(0)
		gate := step.Hold(step.BeforeWrite)
		held := g.held("watch", gate, order)
		g.offer(1)
		gate.Open()
		if got := <-held; got.err != nil || got.receipt.Retries != 1 {
			t.Errorf("purchase: %d retries, %v; want 1", got.receipt.Retries, got.err)
		}
		g.sound(0, 0)
	})
}
