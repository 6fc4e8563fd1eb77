package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// rehearsalFunds is more than the purchases of a rehearsal cost.
const rehearsalFunds = 10 * maxPrice

// rehearsalPatience is how long a rehearsal waits for a worker to report that it waits for a lock.
const rehearsalPatience = 300 * time.Millisecond

// Rehearse does once, in a tiny market under c.Keys or at the first of c.Sites, everything that a row of c will do: seed, mint, list, browse,
// purchase, be refused, wait for a lock, audit and remove. So every command that the subject needs is tried, whatever it is, before the
// load starts. Removing is tried first, so that a user who may not remove leaves nothing behind.
func Rehearse(ctx context.Context, c Config) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("rehearse %s: %w", c.Subject, err)
		}
	}()
	c.Mix, c.Wallets, c.Workload = result.Mix{Sellers: 1, Buyers: 1}, 0, result.Workload{}
	c.Funds, c.Browsers = rehearsalFunds, min(c.Browsers, 1)
	c.Keep, c.History = false, ""
	if len(c.Sites) > 0 {
		c.Keys, c.Dial, c.Sites = c.Sites[0].Keys, c.Sites[0].Dial, nil
	}
	var gates rehearsalGates
	c.steps = gates.of
	allowed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.Dial = watched(c.Dial, cancel)
	if err := (&rowMarket{Config: c}).removable(ctx); err != nil {
		return err
	}
	if err := supported(ctx, c); err != nil {
		return err
	}
	_, err = drive(ctx, c, func(ctx context.Context, ws *Workers) (result.Row, error) {
		err := errors.Join(ws.rehearse(allowed, &gates), ws.Close())
		if denied := context.Cause(allowed); denied != nil && ctx.Err() == nil {
			err = denied
		}
		return result.Row{}, err
	})
	return cmp.Or(err, ctx.Err())
}

// refusals is a redis.Hook that ends a rehearsal at the first command that the user may not run. The strategy may not
// report it: a lock that cannot be released is no failure of the purchase made under it.
type refusals struct{ end context.CancelCauseFunc }

// watched adds refusals to every connection.
func watched(dial func(context.Context) (*backend.Conn, error), end context.CancelCauseFunc,
) func(context.Context) (*backend.Conn, error) {
	return func(ctx context.Context) (*backend.Conn, error) {
		conn, err := dial(ctx)
		if err == nil {
			conn.AddHook(refusals{end})
		}
		return conn, err
	}
}

func (refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.note(err)
		return err
	}
}

func (r refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			r.note(cmd.Err())
		}
		return err
	}
}

func (r refusals) note(err error) {
	if _, denied := backend.Denied(err); denied {
		r.end(err) // the first one counts
	}
}

// removable tries the commands of remove where they find nothing, and returns market.ErrOccupied where they would.
func (m *rowMarket) removable(ctx context.Context) error {
	conn, err := m.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = market.ReadMade(ctx, conn.Client, m.Keys)
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	found := err == nil
	n, err := conn.Exists(ctx, m.Keys.Market(), m.Keys.User(1)).Result()
	if err != nil {
		return err
	}
	if found || n > 0 {
		return fmt.Errorf("%w: a market is open under %s", market.ErrOccupied, m.Keys.Prefix())
	}
	// A key that nobody uses, because others may be opening a market.
	return conn.Unlink(ctx, m.Keys.Lock("rehearsal")).Err()
}

// supported returns ErrConfig, wrapped, if the server lacks a command that the subject needs.
func supported(ctx context.Context, c Config) error {
	spec, ok := c.Subject.(strategies.Spec)
	if !ok {
		return nil
	}
	conn, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = spec.CheckServer(ctx, conn.Client, c.Keys)
	if errors.Is(err, backend.ErrUnavailable) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return err
}

// rehearse takes one item from the seller to the buyer.
func (ws *Workers) rehearse(ctx context.Context, gates *rehearsalGates) error {
	seller, buyer := ws.sellers[0], ws.buyers[0]
	if err := seller.List(ctx); err != nil {
		return err
	}
	orders, err := buyer.Browse(ctx)
	if err != nil {
		return err
	}
	if len(orders) != 1 {
		return fmt.Errorf("browsing finds %d listings after one was made", len(orders))
	}
	if err := buyer.Purchase(ctx, orders[0]); err != nil {
		return fmt.Errorf("purchase: %w", err)
	}
	if err := buyer.Purchase(ctx, orders[0]); !errors.Is(err, market.ErrNotListed) {
		return fmt.Errorf("purchase of an item that is gone: got %v, want: %w", err, market.ErrNotListed)
	}
	for _, w := range ws.browsers {
		if err := w.rehearseLook(ctx, orders[0]); err != nil {
			return err
		}
	}
	if err := ws.rehearseWaiting(ctx, gates); err != nil {
		return err
	}
	if _, err := buyer.supply.funds(ctx, buyer.account); err != nil {
		return err
	}
	audit, err := ws.Audit(ctx)
	if err != nil {
		return err
	}
	if !audit.OK {
		return fmt.Errorf("one client alone breaks the market: %v", audit.Problems)
	}
	return nil
}

// rehearsalGates hold the seller with a lock until the buyer waits for it.
type rehearsalGates struct{ seller, buyer atomic.Pointer[step.Gate] }

// of is Config.steps.
func (g *rehearsalGates) of(r Role) step.Observer {
	gate := &g.seller
	if r != Seller {
		gate = &g.buyer
	}
	return func(ctx context.Context, at step.Name) {
		if here := gate.Load(); here != nil {
			here.Observe(ctx, at)
		}
	}
}

// rehearseWaiting lets the buyer order an item that the seller is just listing. Under locks the buyer has to wait, and
// is woken as in a row: locks send messages for that. Whether the order is met is a matter of luck.
func (ws *Workers) rehearseWaiting(ctx context.Context, gates *rehearsalGates) error {
	seller, buyer := ws.sellers[0], ws.buyers[0]
	o := market.Order{Item: seller.next, Seller: seller.account, Buyer: buyer.account, Price: minPrice}
	acquired, waiting := step.Hold(step.Acquired), step.Hold(step.Waiting)
	waiting.Open() // it only tells that it was reached
	gates.seller.Store(acquired)
	gates.buyer.Store(waiting)
	defer gates.seller.Store(nil)
	defer gates.buyer.Store(nil)

	listing, buying := make(chan error, 1), make(chan error, 1)
	go func() { listing <- seller.List(ctx) }()
	select {
	case <-acquired.Reached():
	case err := <-listing: // it takes no locks
		return err
	}
	go func() { buying <- buyer.Purchase(ctx, o) }()
	select {
	case <-waiting.Reached():
	case <-time.After(rehearsalPatience): // a lock of a library does not report that it waits
	}
	acquired.Open()
	for what, err := range map[string]error{"list": <-listing, "purchase after waiting": <-buying} {
		if Fatal(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// rehearseLook is what a browser will do. The item has been sold, and lies with the buyer.
func (w *Worker) rehearseLook(ctx context.Context, o market.Order) error {
	switch sighting, err := w.look(ctx, o); {
	case errors.Is(err, ErrConfig):
		return err
	case errors.Is(err, strategies.ErrExclusive):
		return fmt.Errorf("%w: %w", ErrConfig, err)
	case err != nil:
		return fmt.Errorf("browse: %w", err)
	case sighting.Torn:
		return fmt.Errorf("browsing finds the item in %d places", sighting.Places)
	}
	return nil
}
