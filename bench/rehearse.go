package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// rehearsalFunds is more than the two purchases of a rehearsal cost.
const rehearsalFunds = 10 * maxPrice

// Rehearse does once, in a tiny market under c.Keys, everything that a row of c will do: seed, mint, list, browse,
// purchase, be refused, audit and remove. So every command that the subject needs is tried, whatever it is, before the
// load starts. Removing is tried first, so that a user who may not remove leaves nothing behind.
func Rehearse(ctx context.Context, c Config) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("rehearse %s: %w", c.Subject, err)
		}
	}()
	c.Mix, c.Wallets, c.Funds = Mix{1, 1}, 0, rehearsalFunds
	allowed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.Dial = watched(c.Dial, cancel)
	conn, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := c.removable(ctx, conn.Client); err != nil {
		return err
	}
	ours, err := c.seed(ctx)
	if ours {
		defer func() { err = errors.Join(err, c.remove(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	process := new(lock.Process)
	err = errors.Join(c.perform(allowed, c.env(conn, process, nil)), process.Close())
	if denied := context.Cause(allowed); denied != nil && ctx.Err() == nil {
		return denied
	}
	return err
}

// refusals is a redis.Hook that ends a rehearsal at the first command that the user may not run. The strategy may not
// tell: a lock that cannot be released is no failure of the purchase made under it.
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

// removable tries the commands of c.remove where they find nothing, and returns market.ErrOccupied where they would.
func (c Config) removable(ctx context.Context, rdb *redis.Client) error {
	_, err := market.ReadMade(ctx, rdb, c.Keys)
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	found := err == nil
	n, err := rdb.Exists(ctx, c.Keys.Market(), c.Keys.User(1)).Result()
	if err != nil {
		return err
	}
	if found || n > 0 {
		return fmt.Errorf("%w: a market is open under %s", market.ErrOccupied, c.Keys.Prefix())
	}
	return rdb.Unlink(ctx, c.Keys.Lock("rehearsal")).Err() // a key of nobody's: others may open a market just now
}

// perform plays one item through the market.
func (c Config) perform(ctx context.Context, env strategies.Env) (err error) {
	purchaser, closer, err := c.Subject.Open(env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	goods, ledger := stall{env.Redis, env.Keys}, market.NewLedger(c.opening().Accounts)
	first, err := goods.mint(ctx, c.seller(0))
	ledger.Minted(first, c.seller(0), err)
	if err != nil {
		return err
	}
	listing := market.Listing{Item: first, Seller: c.seller(0), Price: maxPrice}
	_, err = purchaser.List(ctx, listing)
	if ledger.Listed(listing, err); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	orders, err := goods.browse(ctx, nil, c.buyer(0))
	if err != nil {
		return err
	}
	if len(orders) != 1 {
		return fmt.Errorf("browsing finds %d listings after one was made", len(orders))
	}
	_, err = purchaser.Purchase(ctx, orders[0])
	if ledger.Purchased(orders[0], err); err != nil {
		return fmt.Errorf("purchase: %w", err)
	}
	if _, err := purchaser.Purchase(ctx, orders[0]); !errors.Is(err, market.ErrNotListed) {
		return fmt.Errorf("purchase of an item that is gone: got %v, want: %w", err, market.ErrNotListed)
	}
	if c.Browsers > 0 {
		if err := c.look(ctx, purchaser, listing); err != nil {
			return err
		}
	}
	if _, err := goods.funds(ctx, c.buyer(0)); err != nil {
		return err
	}
	audit, err := c.audit(ctx, []*market.Ledger{ledger})
	if err != nil {
		return err
	}
	if !audit.OK {
		return fmt.Errorf("one client alone breaks the market: %v", audit.Problems)
	}
	return nil
}

// look is what a browser will do. The item has been sold, and lies with the buyer.
func (c Config) look(ctx context.Context, purchaser market.Purchaser, l market.Listing) error {
	browser, ok := purchaser.(market.Browser)
	if !ok {
		return fmt.Errorf("%w: %s takes no lock that browsers could share", ErrConfig, c.Subject)
	}
	sighting, _, err := browser.Browse(ctx, l, c.opening().Accounts)
	switch {
	case errors.Is(err, strategies.ErrExclusive):
		return fmt.Errorf("%w: %w", ErrConfig, err)
	case err != nil:
		return fmt.Errorf("browse: %w", err)
	case sighting.Torn:
		return fmt.Errorf("browsing finds the item in %d places", sighting.Places)
	}
	return nil
}
