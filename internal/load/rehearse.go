package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// Rehearse does once, in a tiny market under o.Keys, everything that a row of p will do,
// so that every command is tried before the load. Removing is tried first: a user who may
// not remove leaves no key behind.
//
// If a program buys, it returns how many orders a second the program answers for an item
// that is gone: the pipe's cost.
func Rehearse(ctx context.Context, p result.Point, o Options) (refused float64, err error) {
	p = result.Point{Strategy: p.Strategy, Mix: result.Mix{Sellers: 1, Buyers: 1}, Load: result.Load{
		Funds: 10 * maxPrice, // more than its purchases cost
		Empty: true,
	}}
	o.Keep = false
	o.History = ""
	if len(o.Sites) > 0 {
		o.Keys = o.Sites[0].Keys
		o.Servers.Market = o.Sites[0].Market
		o.Sites = nil
	}

	// The seller is held with the lock of its second listing, until the buyer waits for one.
	acquired := step.HoldEach(nil, step.Breakpoint{At: step.Acquired, After: step.Written})
	waiting := step.Hold(step.Waiting)
	waiting.Open() // it holds nobody, and only tells that the buyer waits

	gates := map[role]*step.Gate{seller: acquired, buyer: waiting}
	o.steps = func(r role) step.Observer { return gates[r].Observe }

	// The rehearsal ends at the first command that the user may not run.
	allowed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.Servers.Market = o.Servers.Market.WithWrap(
		func(ctx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {
			conn, err := dial(ctx)
			if err == nil {
				conn.AddHook(refusals{cancel})
			}
			return conn, err
		})

	m := newMeasurement(p, o)
	var row result.Row
	err = m.markets[0].checkRemovable(ctx)
	if err == nil {
		row, err = m.drive(ctx, func() (err error) {
			refused, err = m.rehearse(allowed, acquired, waiting)
			if denied := context.Cause(allowed); denied != nil && ctx.Err() == nil {
				return denied
			}
			return err
		})
	}

	// A refused command, or an interrupt, may be what broke the market.
	if row.Audit.Done && !row.Audit.OK && context.Cause(allowed) == nil {
		err = errors.Join(err, fmt.Errorf("%w: %v", ErrWrong, row.Audit.Problems))
	}
	err = cmp.Or(err, ctx.Err()) // drive takes an interrupt while it prepares for no error
	if err != nil {
		err = fmt.Errorf("rehearse %s: %w", o.Subject, err)
	}
	return refused, err
}

// ErrWrong is returned, wrapped, by Rehearse where one client alone has broken its market.
var ErrWrong = errors.New("one client alone breaks the market")

// refusals is a redis.Hook that ends a rehearsal at the first command that the user may
// not run. The strategy might not report it: a lock that cannot be released is no failure
// of the purchase made under it.
type refusals struct{ end context.CancelCauseFunc }

func (refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return r.note(next(ctx, cmd)) }
}

func (r refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			_ = r.note(cmd.Err())
		}
		return err
	}
}

func (r refusals) note(err error) error {
	if _, denied := redisconn.Denied(err); denied {
		r.end(err) // the first one counts
	}
	return err
}

// checkRemovable tries removing where nothing is (else marketstore.ErrOccupied), and whether
// the server has all commands.
func (m *rowMarket) checkRemovable(ctx context.Context) error {
	conn, err := m.Servers.Market.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	_, err = marketstore.ReadNote(ctx, conn.Client, m.Keys)
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	found := err == nil
	n, err := conn.Exists(ctx, m.Keys.Market(), m.Keys.User(1)).Result()
	if err != nil {
		return err
	}
	if found || n > 0 {
		return fmt.Errorf("%w: a market is open under %s", marketstore.ErrOccupied, m.Keys.Prefix())
	}

	// A key that nobody uses, because others may be opening a market.
	if err := conn.Unlink(ctx, m.Keys.Lock("rehearsal")).Err(); err != nil {
		return err
	}
	err = m.Subject.CheckServer(ctx, conn.Client, m.Keys)
	if errors.Is(err, process.ErrUnavailable) {
		return fmt.Errorf("%w: %w", &PointError{"strategy", "it does not run on this server"}, err)
	}
	return err
}

// rehearse makes each operation of a row once. The gate acquired lets the first listing pass,
// and waits for a second one: see [Rehearse].
func (m *measurement) rehearse(
	ctx context.Context, acquired, waiting *step.Gate,
) (refused float64, err error) {
	m.window.begin(0, 0) // nothing is counted in a window of no length
	seller, buyer := m.sellers[0], m.buyers[0]

	if err := seller.listNext(ctx); err != nil {
		return 0, err
	}
	orders, err := buyer.browse(ctx)
	if err != nil {
		return 0, err
	}
	if len(orders) != 1 {
		return 0, fmt.Errorf("browsing finds %d listings after one was made", len(orders))
	}

	if err := buyer.purchase(ctx, orders[0]); err != nil {
		return 0, fmt.Errorf("purchase: %w", err)
	}
	if err := buyer.purchase(ctx, orders[0]); !errors.Is(err, market.ErrNotListed) {
		return 0, fmt.Errorf("purchase of an item that is gone: got %v, want: %w", err, market.ErrNotListed)
	}

	if err := rehearseWaiting(ctx, seller, buyer, acquired, waiting); err != nil {
		return 0, err
	}
	if _, err := buyer.supply.funds(ctx, buyer.account); err != nil {
		return 0, err
	}

	const lasts = 100 * time.Millisecond
	for began := time.Now(); m.Subject.Elsewhere() && time.Since(began) < lasts; refused++ {
		_ = buyer.purchase(ctx, orders[0]) // it is gone: see above
	}
	return refused / lasts.Seconds(), nil
}

// rehearseWaiting lets the buyer order an item that the seller is just listing. Under a
// lock the seller is held once it has taken it, and the buyer has to wait, and is woken
// as in a row. A lock that does not report step.Waiting times out instead.
func rehearseWaiting(ctx context.Context, seller, buyer *worker, acquired, waiting *step.Gate) error {
	// Before the seller's goroutine begins, which moves next on. The price of the listing is
	// drawn, so that the order may be refused for its own, too.
	o := market.Order{Item: seller.next, Seller: seller.account, Buyer: buyer.account, Price: minPrice}
	listing := make(chan error, 1)
	buying := make(chan error, 1)

	go func() { listing <- seller.listNext(ctx) }()
	select {
	case <-acquired.Reached():
	case err := <-listing: // it takes no locks
		return err
	}

	go func() { buying <- buyer.purchase(ctx, o) }()
	var bought error
	select {
	case <-waiting.Reached():
		acquired.Open()
		bought = <-buying
	case bought = <-buying:
		acquired.Open()
	}

	// A refusal is no failure: the lock may have timed out, or the item not have been listed yet.
	if err := <-listing; fatal(err) {
		return fmt.Errorf("list: %w", err)
	}
	if fatal(bought) {
		return fmt.Errorf("purchase after waiting: %w", bought)
	}
	return nil
}
