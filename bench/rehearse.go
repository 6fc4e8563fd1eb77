package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
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
	conn, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Exists(ctx, c.Keys.Run()).Err(); err != nil {
		return err
	}
	made := market.Made{Accounts: c.opening().Accounts, Items: market.BatchSize}
	if n, err := conn.Exists(ctx, c.Keys.Run(), c.Keys.Market(), c.Keys.User(1)).Result(); err != nil || n > 0 {
		return errors.Join(err, occupied(n, c.Keys))
	}
	if _, err := market.Remove(ctx, conn.Client, c.Keys, made, c.Subject.LockKeys(c.Keys, made)); err != nil {
		return err
	}
	if err := c.seed(ctx); err != nil {
		return errors.Join(err, c.remove(ctx))
	}
	return errors.Join(c.perform(ctx, strategies.Env{Redis: conn.Client, Dial: c.dialClient, Keys: c.Keys}), c.remove(ctx))
}

func occupied(n int64, keys market.Keys) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: a market is open under %s", market.ErrOccupied, keys.Prefix())
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
	if _, err := goods.funds(ctx, c.buyer(0)); err != nil {
		return err
	}
	row := Row{}
	if err := c.audit(ctx, &row, []*market.Ledger{ledger}); err != nil {
		return err
	}
	if !row.Audit.OK {
		return fmt.Errorf("one client alone breaks the market: %v", row.Audit.Problems)
	}
	return nil
}
