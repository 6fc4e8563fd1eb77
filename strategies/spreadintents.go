package strategies

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/spread"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// spreadIntents makes a purchase over three slots by writing at the item what is about to be done, so that whoever meets it
// can finish it. The comparison is made where each write is made, so nothing depends on a lock, a clock or a client that
// lives. Package spread has the steps, and why nothing is lost, made or sold twice.
//
// No outcome is unknown for long: a client that lost a reply asks the buyer's account, where an order that is not recorded
// is given up first, and makes it anew. It stays unknown if a server stays away for longer than the time-out, and a
// listing's if the item was sold and listed again before the client could ask.
//
// What breaks it: a failover that loses what was acknowledged. A buyer's debit that is lost makes coins, a seller's credit
// that is lost loses them. It protects items and accounts from clients, and not from that.
//
// Source: see package spread.
func spreadIntents() Strategy {
	return Strategy{
		Name:     "spread-intents",
		Summary:  "an intent at the item, which anybody finishes, a script a slot",
		Source:   "D. Peng and F. Dabek, Percolator, OSDI 2010; T. L. Harris et al., DISC 2002",
		Protects: Protection{Items: true, Accounts: true},
		Params:   []param.Param{intentTimeout},
		Spread:   true,
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			timeout := env.Params.Duration(intentTimeout)
			return &intents{
				trade:  spread.Trade{Slots: env.Slots, Keys: env.Keys, Steps: env.Steps, Patience: timeout},
				thrown: env.Thrown, incarnation: rand.Text(),
			}, nil, nil
		},
	}
}

var intentTimeout = param.Duration("timeout", spread.Patience, 0,
	"how long an operation tries again after others came first, and a step while the cluster is not ready")

// intents is one client.
type intents struct {
	trade       spread.Trade
	thrown      func() // may be nil
	incarnation string
	sequence    int64 // of the last operation
}

// errAgain is returned by an attempt that was certainly not applied and may be made anew.
var errAgain = errors.New("somebody came first")

// List implements market.Purchaser.
func (s *intents) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	return s.again(ctx, func() error { return s.list(ctx, l) })
}

// Purchase implements market.Purchaser.
func (s *intents) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	return s.again(ctx, func() error { return s.purchase(ctx, o) })
}

// again makes attempts until one succeeds or is refused, or the time-out has passed.
func (s *intents) again(ctx context.Context, attempt func() error) (r market.Receipt, err error) {
	start := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return r, beforeWrite(err)
		}
		err := attempt()
		if !errors.Is(err, errAgain) {
			return r, err
		}
		r.Retries++
		r.Thrown = time.Since(start)
		if s.thrown != nil {
			s.thrown()
		}
		if r.Thrown >= s.trade.Patience {
			return r, fmt.Errorf("%w: %d attempts in %s", market.ErrContended, r.Retries, r.Thrown)
		}
	}
}

// read reads an item, and finishes the operation that it holds.
func (s *intents) read(ctx context.Context, id market.ItemID) (spread.Item, error) {
	item, err := s.trade.Read(ctx, id)
	if err != nil {
		return item, beforeWrite(err)
	}
	if item.Operation.Sequence == 0 {
		return item, nil
	}
	if err := s.trade.Finish(ctx, item.Operation); err != nil {
		return item, beforeWrite(fmt.Errorf("finish another's purchase: %w", err))
	}
	return item, errAgain
}

// ready is called between what was read and the first write.
func (s *intents) ready(ctx context.Context) error {
	s.trade.Steps.At(ctx, step.Read)
	s.trade.Steps.At(ctx, step.BeforeWrite)
	return beforeWrite(ctx.Err())
}

func (s *intents) list(ctx context.Context, l market.Listing) error {
	item, err := s.read(ctx, l.Item)
	if err != nil {
		return err
	}
	if item.Owner != l.Seller || item.Listed {
		return market.ErrNotOwned
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.sequence++
	name := spread.Operation{Incarnation: s.incarnation, Sequence: s.sequence}.ID()
	switch done, err := s.trade.List(ctx, l, item.Version, name); {
	case err != nil:
		return afterStep(err)
	case !done:
		return errAgain
	}
	s.trade.Steps.At(ctx, step.Written)
	s.trade.Hint(ctx, l)
	return nil
}

func (s *intents) purchase(ctx context.Context, o market.Order) error {
	item, err := s.read(ctx, o.Item)
	if err := cmp.Or(err, item.Meets(o)); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.sequence++
	op := spread.Operation{
		Incarnation: s.incarnation, Sequence: s.sequence, Item: o.Item, Buyer: o.Buyer, Seller: o.Seller, Price: o.Price,
	}
	answer, err := s.begin(ctx, op, item.Version)
	if err != nil {
		return err
	}
	err = s.trade.Complete(ctx, op, answer)
	switch {
	case answer == spread.Short:
		return market.ErrInsufficientFunds
	case answer != spread.Paid:
		return errAgain
	case err != nil:
		s.reincarnate()
		return fmt.Errorf("item %d is paid, and what follows is unknown: %w", o.Item, err)
	}
	s.trade.Steps.At(ctx, step.Written)
	return nil
}

// begin makes BEGIN and PAY. If nobody answers, it gives the operation up, unless it is paid.
func (s *intents) begin(ctx context.Context, op spread.Operation, version int64) (spread.Answer, error) {
	begun, err := s.trade.Begin(ctx, op, version)
	var refused redis.Error
	switch {
	case err == nil && !begun:
		return "", errAgain
	case err == nil:
		var answer spread.Answer
		if answer, err = s.trade.Pay(ctx, op); err == nil {
			return answer, nil
		}
	case spread.Unsent(err) || errors.As(err, &refused):
		return "", beforeWrite(err)
	}
	answer, asking := s.trade.Withdraw(ctx, op)
	if asking != nil {
		s.reincarnate()
		return "", fmt.Errorf("the outcome of the purchase is unknown: %w, and then: %w", err, asking)
	}
	return answer, nil
}

// reincarnate leaves an operation to whoever meets it: the client may not go on to a later number before it is ended.
func (s *intents) reincarnate() { s.incarnation, s.sequence = rand.Text(), 0 }

// afterStep classifies the error of a script that makes one write.
func afterStep(err error) error {
	var refused redis.Error
	if spread.Unsent(err) || errors.As(err, &refused) {
		return beforeWrite(err)
	}
	return fmt.Errorf("outcome of the writing script is unknown: %w", err)
}
