package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// crew is all workers of a row.
type crew struct {
	sellers, buyers []*worker
	brake           *brake
	from            time.Time // end of the warm-up
}

// hire connects the workers of a row and opens their Purchasers. On an error nothing stays open.
func hire(ctx context.Context, c Config) (*crew, error) {
	crew := &crew{brake: newBrake()}
	tickets := newTickets(c.Purchases)
	for i := range c.Mix.Sellers {
		w, err := hireOne(ctx, c, len(crew.all()), c.seller(i), newSellerRecorder())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect seller %d: %w", i+1, err), crew.close())
		}
		w.brake = crew.brake
		crew.sellers = append(crew.sellers, w)
	}
	for i := range c.Mix.Buyers {
		w, err := hireOne(ctx, c, len(crew.all()), c.buyer(i), newBuyerRecorder())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect buyer %d: %w", i+1, err), crew.close())
		}
		w.brake, w.tickets = crew.brake, tickets
		crew.buyers = append(crew.buyers, w)
	}
	return crew, nil
}

func hireOne(ctx context.Context, c Config, id int, account market.UserID, r *recorder) (*worker, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	purchaser, closer, err := c.Subject.Open(strategies.Env{Redis: conn.Client, Dial: c.dialClient, Keys: c.Keys})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &worker{
		account: account, purchaser: purchaser, closer: closer, conn: conn,
		goods: stall{conn.Client, c.Keys}, ledger: market.NewLedger(c.opening().Accounts), recorder: r,
		random: rand.New(rand.NewPCG(c.Seed, uint64(id))),
	}, nil
}

func (c Config) dialClient(ctx context.Context) (*redis.Client, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

func (c *crew) all() []*worker {
	return append(append([]*worker(nil), c.sellers...), c.buyers...)
}

func (c *crew) close() error {
	var errs []error
	for _, w := range c.all() {
		errs = append(errs, w.closer.Close(), w.conn.Close())
	}
	return errors.Join(errs...)
}

// work runs the row: warm-up, measurement, drain. It returns when every worker has ended.
func (c *crew) work(ctx context.Context, warmup, duration time.Duration) {
	// Operations outlive the user's wish to stop, so that the one in flight can end well, but not the grace.
	operations, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c.from = time.Now().Add(warmup)
	if duration > 0 {
		defer time.AfterFunc(warmup+duration, func() { c.brake.pull(Complete, nil) }).Stop()
	}
	defer context.AfterFunc(ctx, func() { c.brake.pull(Interrupted, nil) })()

	var everybody, buyers sync.WaitGroup
	start := func(w *worker, work func(context.Context), group *sync.WaitGroup) {
		w.recorder.from = c.from
		group.Add(1)
		everybody.Go(func() {
			defer group.Done()
			work(operations)
		})
	}
	for _, w := range c.sellers {
		start(w, w.sell, new(sync.WaitGroup))
	}
	for _, w := range c.buyers {
		start(w, w.buy, &buyers)
	}
	go func() { // buyers end before their time when their tickets or their coins are gone
		buyers.Wait()
		c.brake.pull(Complete, nil)
	}()
	<-c.brake.done
	limit := grace
	if c.brake.status == Incomplete {
		limit = failedGrace
	}
	defer time.AfterFunc(limit, cancel).Stop()
	everybody.Wait()
}

// ledgers are what the workers know.
func (c *crew) ledgers() []*market.Ledger {
	var all []*market.Ledger
	for _, w := range c.all() {
		all = append(all, w.ledger)
	}
	return all
}
