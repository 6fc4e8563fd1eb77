package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// AtOnce measures a row in which all buyers begin at the same time and buy one item each, every one another, until all
// have done so: once, and again until c.Warmup and c.Duration are over. Sellers list the items before each time, and
// nothing while buyers buy. The row's Seconds are those in which buyers bought, so that all of so many buyers have finished
// after that number divided by the row's purchases/s. The warm-up ends between two times. Errors and the row are those of
// Run, but what Run observes beside the workers is absent.
//
// Source: the simulation of M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015, in which clients
// update one row of a database: here every purchase changes the same market.
func AtOnce(ctx context.Context, c Config) (result.Row, error) {
	if c.Hot > 0 || c.Stock > 0 {
		return result.Row{}, fmt.Errorf("%w: %d hot items and a stock of %d: buyers who begin at once buy what sellers list",
			ErrConfig, c.Hot, c.Stock)
	}
	if len(c.Sites) > 1 {
		return result.Row{}, fmt.Errorf("%w: %d markets: buyers who begin at once are those of one", ErrConfig, len(c.Sites))
	}
	return driveRow(ctx, c, func(ctx context.Context, ws *Workers) (result.Row, error) {
		took, err := ws.again(ctx)
		status := result.Complete
		if err != nil {
			status = result.Incomplete
		} else if ctx.Err() != nil {
			status = result.Interrupted
		}
		if closing := ws.Close(); err == nil {
			err = closing // the first failure explains this one
		}
		row := ws.Row(status, took)
		var auditErr error
		row.Audit, auditErr = ws.Audit(context.WithoutCancel(ctx))
		return row, errors.Join(auditErr, err)
	})
}

// again lets all buyers buy at once, again and again, and returns how long that took after the warm-up.
func (ws *Workers) again(ctx context.Context) (took time.Duration, err error) {
	ws.collector.from.Store(never)
	started, warm := time.Now(), true
	for took == 0 || time.Since(started) < ws.Warmup+ws.Duration {
		if warm && time.Since(started) >= ws.Warmup {
			warm = false
			ws.collector.begin(time.Now())
		}
		orders, err := ws.anOrderEach(context.WithoutCancel(ctx))
		if err != nil {
			return took, err
		}
		if ctx.Err() != nil {
			return took, nil
		}
		once, err := ws.buyAtOnce(ctx, orders)
		if !warm {
			took += once
		}
		if err != nil || ctx.Err() != nil {
			return took, err
		}
	}
	return took, nil
}

// anOrderEach lets the sellers list an item for each buyer, and returns an order of each.
func (ws *Workers) anOrderEach(ctx context.Context) ([]market.Order, error) {
	for i := range ws.buyers {
		if err := ws.sellers[i%len(ws.sellers)].List(ctx); err != nil {
			return nil, err // nobody else is at work: it cannot be contention
		}
	}
	all := redisSupply{rdb: ws.buyers[0].conn.Load().Client, keys: ws.markets[0].Keys, some: len(ws.buyers)}
	orders, err := all.browse(ctx, nil, 0)
	if err == nil && len(orders) != len(ws.buyers) {
		err = fmt.Errorf("%d items were listed, and %d are on the market", len(ws.buyers), len(orders))
	}
	if err != nil {
		return nil, err
	}
	for i, w := range ws.buyers {
		orders[i].Buyer = w.account
	}
	return orders, nil
}

// buyAtOnce lets each buyer make its order, and returns how long it took until all were made. Who gave up under
// contention begins again, unless ctx has ended.
func (ws *Workers) buyAtOnce(ctx context.Context, orders []market.Order) (time.Duration, error) {
	begin, errs := make(chan struct{}), make([]error, len(orders))
	var ready, all sync.WaitGroup
	for i, w := range ws.buyers {
		ready.Add(1)
		all.Go(func() {
			ready.Done()
			<-begin
			for {
				err := w.Purchase(context.WithoutCancel(ctx), orders[i])
				if !errors.Is(err, market.ErrContended) {
					errs[i] = err
					return
				}
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	all.Wait()
	took := time.Since(start)
	for i, err := range errs {
		if err != nil {
			return took, fmt.Errorf("purchase item %d: %w", orders[i].Item, err)
		}
	}
	return took, nil
}
