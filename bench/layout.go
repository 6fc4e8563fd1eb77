package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/spread"
	"github.com/marketsim/marketsim/strategies"
)

// A layout is how a market lies in Redis: all keys in one slot, or each item and account in a slot of its own. The driver
// reads and writes a market through it, before and after the load. The errors are those of packages market and spread.
type layout interface {
	supply
	seed(ctx context.Context, o market.Opening) error
	// vacant tries the commands of remove where they find nothing, and returns market.ErrOccupied where they would.
	vacant(ctx context.Context) error
	missing(ctx context.Context, o market.Opening) (string, error)
	audit(ctx context.Context, o market.Opening, ledgers []*market.Ledger) (market.AuditResult, error)
	snapshot(ctx context.Context, accounts int) (market.Snapshot, error)
	remove(ctx context.Context, made market.Made, locks iter.Seq[string]) error
}

// checkLayout returns ErrConfig, wrapped, for a strategy that is made for another layout, and for what only a market in one
// slot has.
func (c Config) checkLayout() error {
	spec, ok := c.Subject.(strategies.Spec)
	switch spreads := c.Spread != nil; {
	case ok && spec.Strategy().Spread != spreads:
		return fmt.Errorf("%w: %s: %w", ErrConfig, spec, strategies.ErrLayout)
	case !spreads:
		return nil
	case c.Browsers > 0:
		return fmt.Errorf("%w: %d browsers of a market whose keys share no slot: nobody can look at several of them at once",
			ErrConfig, c.Browsers)
	case len(c.Sites) > 1:
		return fmt.Errorf("%w: %d markets whose keys share no slot: each lies on all nodes, so want one", ErrConfig, len(c.Sites))
	case c.party.of > 1:
		return fmt.Errorf("%w: several processes that load a market whose keys share no slot: let one do it", ErrConfig)
	case c.Hot > 0 || c.Stock > 0:
		return fmt.Errorf("%w: %d hot items and a stock of %d: keys that share no slot are not listed many at once", ErrConfig,
			c.Hot, c.Stock)
	}
	return spread.CheckKeys(c.Keys)
}

// nodes are connections to the masters of a market whose keys share no slot, which count into stats; nil for another. They
// are dialled under what the function returns.
func (m *rowMarket) nodes(stats *backend.Stats, under func(context.Context) context.Context) *backend.Nodes {
	if m.Spread == nil {
		return nil
	}
	return m.Spread.Nodes(func(ctx context.Context, master backend.Target) (*backend.Conn, error) {
		return backend.Dial(backend.CountInto(under(ctx), stats), master)
	})
}

// layout is how the market is reached over a connection to the server of its note. What is returned with it is to be
// closed.
func (m *rowMarket) layout(conn *backend.Conn) (layout, io.Closer) {
	if m.Spread == nil {
		return oneSlot{redisSupply{conn.Client, m.Keys, m.browseSize(), &m.minter}}, io.NopCloser(nil)
	}
	nodes := m.nodes(conn.Stats, func(ctx context.Context) context.Context { return ctx })
	return slotted{nodes, m.Keys, m.browseSize(), &m.minter}, nodes
}

// oneSlot is the layout of the book.
type oneSlot struct{ redisSupply }

func (s oneSlot) seed(ctx context.Context, o market.Opening) error {
	return market.Seed(ctx, s.rdb, s.keys, o)
}

func (s oneSlot) vacant(ctx context.Context) error {
	_, err := market.ReadMade(ctx, s.rdb, s.keys)
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	found := err == nil
	n, err := s.rdb.Exists(ctx, s.keys.Market(), s.keys.User(1)).Result()
	if err != nil {
		return err
	}
	if found || n > 0 {
		return fmt.Errorf("%w: a market is open under %s", market.ErrOccupied, s.keys.Prefix())
	}
	// A key that nobody uses, because others may be opening a market.
	return s.rdb.Unlink(ctx, s.keys.Lock("rehearsal")).Err()
}

func (s oneSlot) missing(ctx context.Context, o market.Opening) (string, error) {
	return market.Missing(ctx, s.rdb, s.keys, o)
}

func (s oneSlot) audit(ctx context.Context, o market.Opening, ledgers []*market.Ledger) (market.AuditResult, error) {
	return market.Audit(ctx, s.rdb, s.keys, o, ledgers...)
}

func (s oneSlot) snapshot(ctx context.Context, accounts int) (market.Snapshot, error) {
	return market.ReadSnapshot(ctx, s.rdb, s.keys, accounts)
}

func (s oneSlot) remove(ctx context.Context, made market.Made, locks iter.Seq[string]) error {
	_, err := market.Remove(ctx, s.rdb, s.keys, made, locks)
	return err
}

// slotted is the layout of package spread.
type slotted struct {
	slots  spread.Slots
	keys   market.Keys
	some   int            // as of redisSupply
	minter *market.Minter // as well
}

func (s slotted) note(ctx context.Context) (market.Made, error) {
	rdb, err := s.slots.For(ctx, s.keys.Run())
	if err != nil {
		return market.Made{}, err
	}
	return market.ReadMade(ctx, rdb, s.keys)
}

func (s slotted) seed(ctx context.Context, o market.Opening) error {
	return spread.Seed(ctx, s.slots, s.keys, o)
}

func (s slotted) vacant(ctx context.Context) error {
	switch _, err := s.note(ctx); {
	case err == nil:
		return fmt.Errorf("%w: a market is open under %s", market.ErrOccupied, s.keys.Prefix())
	case !errors.Is(err, redis.Nil):
		return err
	}
	key := s.keys.SlotLock("rehearsal")
	rdb, err := s.slots.For(ctx, key)
	if err != nil {
		return err
	}
	return rdb.Unlink(ctx, key).Err()
}

func (s slotted) missing(ctx context.Context, o market.Opening) (string, error) {
	return spread.Missing(ctx, s.slots, s.keys, o)
}

// audit ends the operations that clients have left before it judges.
func (s slotted) audit(ctx context.Context, o market.Opening, ledgers []*market.Ledger) (market.AuditResult, error) {
	if _, err := spread.EndAll(ctx, s.slots, s.keys, lastMinted(ledgers)); err != nil {
		return market.AuditResult{}, err
	}
	return spread.Audit(ctx, s.slots, s.keys, o, ledgers...)
}

func (s slotted) snapshot(ctx context.Context, accounts int) (market.Snapshot, error) {
	made, err := s.note(ctx)
	if err != nil {
		return market.Snapshot{}, err
	}
	return spread.ReadSnapshot(ctx, s.slots, s.keys, accounts, made.Items)
}

func (s slotted) remove(ctx context.Context, made market.Made, locks iter.Seq[string]) error {
	_, err := spread.Remove(ctx, s.slots, s.keys, made, locks)
	return err
}

func (s slotted) mint(ctx context.Context, owner market.UserID) (market.ItemID, error) {
	return spread.Mint(ctx, s.slots, s.minter, s.keys, owner)
}

func (s slotted) browse(ctx context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error) {
	rdb, err := s.slots.For(ctx, s.keys.Market())
	if err != nil {
		return orders, err
	}
	return redisSupply{rdb, s.keys, s.some, s.minter}.browse(ctx, orders, buyer)
}

func (s slotted) funds(ctx context.Context, account market.UserID) (int64, error) {
	return spread.Funds(ctx, s.slots, s.keys, account)
}

// masters are those of the cluster on which the market lies, if its keys share no slot.
func (m *rowMarket) masters() []backend.Target {
	if m.Spread == nil {
		return nil
	}
	return m.Spread.Masters()
}

// keeping is how well the servers of the market have kept their keys: conn's, or all masters.
func (m *rowMarket) keeping(ctx context.Context, conn *backend.Conn) keeping {
	if m.Spread == nil {
		return readKeeping(ctx, conn)
	}
	var all keeping
	for _, master := range m.masters() {
		conn, err := backend.Dial(ctx, master)
		if err != nil {
			continue
		}
		one := readKeeping(ctx, conn)
		conn.Close()
		all.process, all.evicted, all.policy = all.process+one.process, all.evicted+one.evicted, one.policy
	}
	return all
}
