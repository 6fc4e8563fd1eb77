package suite

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A buy is how a worker of a test buys.
type buy = func(context.Context, *redis.Client, spoiled, market.Order) error

// reserves buys an item that it has reserved for a lease, and has seen for sale then. Whoever
// finds it reserved gives up at once. Unless it compares, it does not look whose the
// reservation is by the time at which it buys.
func reserves(compares bool) buy {
	return func(ctx context.Context, rdb *redis.Client, s spoiled, o market.Order) error {
		key := s.Keys.Lock("item:" + strconv.Itoa(int(o.Item)))
		buyer := strconv.Itoa(int(o.Buyer))
		is, err := rdb.SetNX(ctx, key, buyer, explore.Lease).Result()
		switch {
		case err != nil:
			return errors.Join(market.ErrNotSent, err)
		case !is:
			return market.ErrContended
		}

		err = rdb.ZScore(ctx, s.Keys.Market(), market.Member(o.Item, o.Seller)).Err()
		switch {
		case errors.Is(err, redis.Nil):
			return market.ErrNotListed
		case err != nil:
			return errors.Join(market.ErrNotSent, err)
		}

		err = rdb.Watch(ctx, func(tx *redis.Tx) error {
			switch owner, err := tx.Get(ctx, key).Result(); {
			case compares && owner != buyer:
				return market.ErrContended
			case err != nil && !errors.Is(err, redis.Nil):
				return errors.Join(market.ErrNotSent, err)
			}

			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				return s.writes(ctx, p, o)
			})
			return err
		}, watched(compares, key)...)

		if errors.Is(err, redis.TxFailedErr) {
			return market.ErrContended
		}
		return err
	}
}

func watched(is bool, key string) []string {
	if is {
		return []string{key}
	}
	return nil
}

// A rival who gives up at once comes again when a reservation has run out. Where clients all
// begin at the same moment, nobody does.
func TestExploreRivalComesAfterTheLease(t *testing.T) {
	pauses := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.Pause}}
	for _, c := range []struct {
		name         string
		buy          buy
		beginsLater  bool
		wantPreempts int // 0: no harm is found
	}{
		{name: "is not looked at again", buy: reserves(false), beginsLater: true, wantPreempts: 1},
		{name: "is not looked at again, and all come at once", buy: reserves(false)},
		{name: "is looked at again", buy: reserves(true), beginsLater: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			SearchesAlone(t)
			m := Markets()[0]
			m.BeginsLater = c.beginsLater
			program := m.Program(t.Name(), purchaseOver(t, redis.Options{MaxRetries: -1}, c.buy))
			r, err := explore.Search(t.Context(), program, pauses)
			if err != nil {
				t.Fatal(err)
			}

			finds := len(r.Found) > 0
			switch {
			case finds != (c.wantPreempts > 0):
				t.Error(r)
			case finds && (r.Found[0].Harm != verify.SoldTwice || r.Found[0].Preemptions != c.wantPreempts):
				t.Error(r)
			}
		})
	}
}

// locksAccounts locks the accounts of the buyer and the seller, in this order or in that of
// their numbers, for as long as it takes to buy.
func locksAccounts(inOrder bool) buy {
	return func(ctx context.Context, rdb *redis.Client, s spoiled, o market.Order) error {
		accounts := []market.UserID{o.Buyer, o.Seller}
		if inOrder {
			accounts = []market.UserID{min(o.Buyer, o.Seller), max(o.Buyer, o.Seller)}
		}
		ctx, cancel := context.WithTimeout(ctx, 4*explore.Lease)
		defer cancel()

		var held []string
		defer func() {
			_ = rdb.Del(context.WithoutCancel(ctx), held...).Err()
		}()
		for _, account := range accounts {
			key := s.Keys.Lock("user:" + strconv.Itoa(int(account)))
			if err := waitsFor(ctx, rdb, key); err != nil {
				return errors.Join(market.ErrNotSent, err)
			}
			held = append(held, key)
		}
		return s.transfer(ctx, o)
	}
}

// waitsFor takes a lock that outlasts the test, unless its owner gives it back.
func waitsFor(ctx context.Context, rdb *redis.Client, key string) error {
	for {
		is, err := rdb.SetNX(ctx, key, 1, time.Hour).Result()
		if is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(explore.Lease):
		}
	}
}

// Two who pay each other, and lock both accounts in an order of their own, wait for each other.
func TestExploreFindsThoseWhoWaitForEachOther(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		SearchesAlone(t)
		m, _ := MarketNamed("pay-each-other")
		inTurn := purchaseOver(t, redis.Options{MaxRetries: -1}, locksAccounts(inOrder))
		program := m.Program(t.Name(), inTurn)
		r, err := explore.Search(t.Context(), program, explore.Bounds{Preemptions: 2})
		if err != nil {
			t.Fatal(err)
		}

		switch {
		case inOrder && len(r.Found) > 0:
			t.Errorf("in the order of the accounts: %s", r)
		case !inOrder && (len(r.Found) != 1 ||
			r.Found[0].Harm != verify.WaitForEachOther || r.Found[0].Preemptions != 1):

			t.Errorf("the buyer's first: %s", r)
		}
	}
}

// givesUp buys by a script, and closes its connections when the call ends, as go-redis does not.
// It then says that nothing was sent, unless it is honest.
func givesUp(honest bool) buy {
	return func(ctx context.Context, rdb *redis.Client, s spoiled, o market.Order) error {
		bought := make(chan error, 1)
		go func() {
			bought <- scripted(context.WithoutCancel(ctx), rdb, s, o)
		}()
		select {
		case err := <-bought:
			return err
		case <-ctx.Done():
		}

		err := errors.Join(ctx.Err(), rdb.Close(), <-bought)
		if honest {
			return err
		}
		return errors.Join(market.ErrNotSent, err)
	}
}

// A call that is given up strikes a purchase, and shows who says no though the order was
// executed.
func TestExploreFindsWhoSaysNoToACallThatIsGivenUp(t *testing.T) {
	for _, honest := range []bool{false, true} {
		SearchesAlone(t)
		purchase := purchaseOver(t, redis.Options{MaxRetries: -1}, givesUp(honest))
		program := Markets()[0].Program(t.Name(), purchase)
		r, err := explore.Search(t.Context(), program, explore.Bounds{
			Preemptions: explore.Unbounded, Faults: 1, Kinds: []explore.Fault{explore.Cancel},
		})
		if err != nil {
			t.Fatal(err)
		}

		switch {
		case honest && len(r.Found) > 0:
			t.Errorf("who says what it knows: %s", r)
		case !honest && (len(r.Found) != 1 || r.Found[0].Harm != verify.ToldNo || r.Found[0].Faults != 1):
			t.Errorf("who says no: %s", r)
		}
	}
}
