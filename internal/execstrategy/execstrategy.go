// Package execstrategy is the strategy of run --exec: purchases and offers are made by an
// author's program in any language, a process for each worker.
package execstrategy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// lease is how long locks of programs last: as long as the book's.
const lease = 10 * time.Second

// New has a program buy and list.
func New(name string, command []string) strategies.Strategy {
	return strategies.Strategy{
		Name:      name,
		Elsewhere: true,
		New: func(env strategies.Env) (market.Purchaser, io.Closer, error) {
			b, err := start(name, command, env)
			return b, b, err
		},
	}
}

// A buyer is one process of a program: a Purchaser of which nothing is known
// but its answers.
type buyer struct {
	*program.Process
	heard chan program.Output
	// It has not answered in time: its next line may be about that request.
	unanswered bool
}

// start starts a process of the program for a worker.
func start(name string, command []string, env strategies.Env) (*buyer, error) {
	server := env.Redis.Options()
	launch := program.Launch{
		Name:      name,
		Command:   command,
		KeyPrefix: env.Keys.Prefix(),
		Lease:     lease,
		Server: url.URL{
			Scheme: "redis",
			Host:   server.Addr,
			User:   url.UserPassword(server.Username, server.Password),
		},
	}

	b := &buyer{heard: make(chan program.Output, 1000)}
	var err error
	b.Process, err = launch.Start(func(o program.Output) {
		select {
		case b.heard <- o:
		default: // more lines than were asked for
		}
	})
	return b, err
}

// Close ends the program.
func (b *buyer) Close() error {
	b.Process.Close()
	return nil
}

// Ready returns when the program has answered for the first time: it has
// started, and has connected.
func (b *buyer) Ready(ctx context.Context) error {
	order := program.Buy(market.Order{Buyer: 1, Seller: 2, Price: 1})
	_, err := b.ask(ctx, program.StartLimit, order, program.BuyAnswers)
	if market.Refused(err) {
		return nil
	}
	return err
}

// Purchase implements market.Purchaser. The number of retries is the one that
// the program says.
func (b *buyer) Purchase(ctx context.Context, o market.Order) (r market.Receipt, err error) {
	answer, err := b.ask(ctx, program.AnswerLimit, program.Buy(o), program.BuyAnswers)
	if err != nil || answer.Line == program.Bought {
		return r, err
	}

	_, err = fmt.Sscanf(answer.Line, program.Bought+" %d", &r.Retries)
	if err != nil || r.Retries < 0 {
		err = b.wrong(program.Buy(o), fmt.Errorf("said %s, not \"bought RETRIES\"", answer.Quoted()))
	}
	return r, err
}

// List implements market.Purchaser.
func (b *buyer) List(ctx context.Context, l market.Listing) (r market.Receipt, err error) {
	_, err = b.ask(ctx, program.AnswerLimit, program.List(l), program.ListAnswers)
	return r, err
}

// ask asks the program, and returns its answer, which has to begin with one of the words.
// Some mean an error.
func (b *buyer) ask(
	ctx context.Context, limit time.Duration, request, words string,
) (answer program.Output, err error) {
	if b.unanswered {
		return answer, market.ErrNotSent
	}

	b.Tell(request)
	b.unanswered = true
	select {
	case answer = <-b.heard:
		b.unanswered = false
	case <-time.After(limit):
		return answer, b.wrong(request, program.SilentFor(limit))
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}

	outcome, _ := program.Outcome(answer.Word())
	err = cmp.Or(answer.Expect(words), outcome)
	switch {
	case errors.Is(err, program.ErrOutcomeUnknown):
		err = b.wrong(request, fmt.Errorf("said %s: %w what it has done", answer.Quoted(), err))
	case err != nil && !market.Refused(err):
		err = b.wrong(request, err)
	}
	return answer, err
}

func (b *buyer) wrong(request string, cause error) error {
	return program.WrongAnswer(request, cause, b.LastLines())
}
