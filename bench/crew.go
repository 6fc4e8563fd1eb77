package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// crew is all workers of a row.
type crew struct {
	sellers, buyers, browsers []*worker
	brake                     *brake
	process                   *lock.Process // what the workers' locks share
	from                      time.Time     // end of the warm-up
	history                   *history.Writer
}

// hire connects the workers of a row and opens their Purchasers. On an error nothing stays open.
func hire(ctx context.Context, c Config) (*crew, error) {
	recording, err := c.record()
	if err != nil {
		return nil, err
	}
	crew := &crew{brake: newBrake(), process: new(lock.Process), history: recording}
	tickets := newTickets(c.Purchases)
	for _, role := range []struct {
		name     string
		workers  *[]*worker
		count    int
		account  func(i int) market.UserID
		recorder func() *recorder
	}{
		{"seller", &crew.sellers, c.Mix.Sellers, c.seller, newSellerRecorder},
		{"buyer", &crew.buyers, c.Mix.Buyers, c.buyer, newBuyerRecorder},
		{"browser", &crew.browsers, c.Browsers, func(int) market.UserID { return 0 }, newBrowserRecorder},
	} {
		for i := range role.count {
			w, err := c.hireOne(ctx, crew, role.account(i), role.name)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("connect %s %d: %w", role.name, i+1, err), crew.close(), crew.history.Discard())
			}
			w.recorder, w.tickets = role.recorder(), tickets
			*role.workers = append(*role.workers, w)
		}
	}
	return crew, nil
}

func (c Config) hireOne(ctx context.Context, crew *crew, account market.UserID, role string) (*worker, error) {
	recorder, err := crew.history.Worker(role)
	if err != nil {
		return nil, err
	}
	open := func(ctx context.Context) (*backend.Conn, market.Purchaser, io.Closer, error) {
		conn, err := c.Dial(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		env := c.env(conn, crew.process, recorder)
		if c.Rough != nil {
			env.Steps = c.Rough.Storm.Steps(role == "seller")
		}
		purchaser, closer, err := c.Subject.Open(env)
		if err != nil {
			return nil, nil, nil, errors.Join(err, conn.Close())
		}
		return conn, purchaser, closer, nil
	}
	conn, purchaser, closer, err := open(ctx)
	if err != nil {
		return nil, err
	}
	return &worker{
		account: account, accounts: c.opening().Accounts, purchaser: purchaser, closer: closer, conn: conn,
		goods: stall{conn.Client, c.Keys}, keys: c.Keys, open: open, ledger: market.NewLedger(c.opening().Accounts), brake: crew.brake, history: recorder,
		random: rand.New(rand.NewPCG(c.Seed, uint64(len(crew.all())))),
	}, nil
}

// env is what a worker's Purchaser works with.
func (c Config) env(conn *backend.Conn, process *lock.Process, h *history.Recorder) strategies.Env {
	env := strategies.Env{
		Redis: conn.Client, Dial: c.dialClient, Keys: c.Keys, Servers: c.Servers, Process: process,
	}
	if h != nil {
		env.Holds = h.Held
	}
	return env
}

func (c Config) dialClient(ctx context.Context) (*redis.Client, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

func (c *crew) all() []*worker {
	return slices.Concat(c.sellers, c.buyers, c.browsers)
}

func (c *crew) close() error {
	var errs []error
	for _, w := range c.all() {
		if w.purchaser != nil { // it could be opened
			errs = append(errs, w.closer.Close(), w.conn.Close())
		}
	}
	if c.process != nil {
		errs = append(errs, c.process.Close())
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
	for _, w := range c.browsers {
		start(w, w.look, new(sync.WaitGroup))
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
