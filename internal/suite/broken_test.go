package suite

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// opened makes a PurchaserFactory of a strategy spec, changed by spoil where it is not nil.
func opened(
	t testing.TB, text string, spoil func(spoiler, market.Purchaser) market.Purchaser,
) PurchaserFactory {
	t.Helper()
	spec, err := strategies.Builtin().Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if spoil == nil {
		return PurchaserFactory{SharedAccounts: true, Open: spec.OpenFor}
	}

	return PurchaserFactory{SharedAccounts: true, Open: func(ctx context.Context, w market.Worker) (
		market.Purchaser, io.Closer, error) {
		p, closer, err := spec.OpenFor(ctx, w)
		if err != nil {
			return nil, nil, err
		}
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
		return spoil(spoiler{rdb, w.Keys}, p), both{closer, rdb}, nil
	}}
}

type both [2]io.Closer

func (b both) Close() error { return errors.Join(b[0].Close(), b[1].Close()) }

// spoiler is what a worker spoils with.
type spoiler struct {
	Conn *redis.Client
	Keys market.Keys
}

// spoiled is a Purchaser that does, before or after what the good one does,
// something it should not.
type spoiled struct {
	market.Purchaser
	spoiler
	list     func(s *spoiled, ctx context.Context, l market.Listing) error
	purchase func(s *spoiled, ctx context.Context, o market.Order) error
	receipt  func(*market.Receipt) // changes that of a purchase
}

func (s *spoiled) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	if s.list == nil {
		return s.Purchaser.List(ctx, l)
	}
	return market.Receipt{}, s.list(s, ctx, l)
}

func (s *spoiled) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	if s.receipt != nil {
		r, err := s.Purchaser.Purchase(ctx, o)
		s.receipt(&r)
		return r, err
	}
	if s.purchase == nil {
		return s.Purchaser.Purchase(ctx, o)
	}
	return market.Receipt{}, s.purchase(s, ctx, o)
}

func (s *spoiled) goodList(ctx context.Context, l market.Listing) error {
	_, err := s.Purchaser.List(ctx, l)
	return err
}

func (s *spoiled) goodPurchase(ctx context.Context, o market.Order) error {
	_, err := s.Purchaser.Purchase(ctx, o)
	return err
}

// afterPurchase spoils a purchase that was applied.
func afterPurchase(harm func(ctx context.Context, w spoiler, o market.Order) redis.Cmder) spoiled {
	return spoiled{purchase: func(s *spoiled, ctx context.Context, o market.Order) error {
		err := s.goodPurchase(ctx, o)
		if err == nil {
			harm(context.WithoutCancel(ctx), s.spoiler, o)
		}
		return err
	}}
}

// afterCancellation makes a purchase leave a lock whose context ended meanwhile
// and whose outcome is unknown.
func afterCancellation(lease time.Duration) spoiled {
	return spoiled{purchase: func(s *spoiled, ctx context.Context, o market.Order) error {
		err := s.goodPurchase(ctx, o)
		if ctx.Err() == nil || market.Refused(err) {
			return err
		}
		ctx = context.WithoutCancel(ctx)
		return errors.Join(errUnknown, s.Conn.Set(ctx, s.Keys.Lock("left"), 1, lease).Err())
	}}
}

var errUnknown = errors.New("the reply did not come")

// afterRefusal makes a purchase that was refused for one reason do something else.
func afterRefusal(
	of error, do func(s *spoiled, ctx context.Context, o market.Order) error) spoiled {

	return spoiled{purchase: func(s *spoiled, ctx context.Context, o market.Order) error {
		err := s.goodPurchase(ctx, o)
		if errors.Is(err, of) {
			return do(s, ctx, o)
		}
		return err
	}}
}

// transfer makes the writes of a purchase without asking.
func (s *spoiled) transfer(ctx context.Context, o market.Order) error {
	_, err := s.Conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		return s.writes(ctx, p, o)
	})
	return err
}

// writes are those of a purchase.
func (s spoiler) writes(ctx context.Context, p redis.Pipeliner, o market.Order) error {
	p.HIncrBy(ctx, s.Keys.User(o.Seller), "funds", o.Price)
	p.HIncrBy(ctx, s.Keys.User(o.Buyer), "funds", -o.Price)
	p.SAdd(ctx, s.Keys.Inventory(o.Buyer), int64(o.Item))
	p.ZRem(ctx, s.Keys.Market(), market.Member(o.Item, o.Seller))
	return nil
}
