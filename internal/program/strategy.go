package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// lease is how long locks of programs last: as long as the book's.
const lease = 10 * time.Second

// Strategy is a strategy whose purchases and listings a program makes: a process of it for
// each worker.
func Strategy(name string, command []string) strategies.Strategy {
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
	*Child
	heard chan Output
	// It has not answered in time: its next line may be about that request.
	unanswered bool
}

// start starts a process of the program for a worker.
func start(name string, command []string, env strategies.Env) (*buyer, error) {
	server := env.Redis.Options()
	if server.Network == "unix" {
		return nil, fmt.Errorf("%s is told a host and a port, and this server has a socket: name it by redis://", name)
	}
	scheme := "redis"
	if server.TLSConfig != nil {
		scheme = "rediss"
	}
	launch := Launch{
		Name:      name,
		Command:   command,
		KeyPrefix: env.Keys.Prefix(),
		Lease:     lease,
		Server: url.URL{
			Scheme: scheme,
			Host:   server.Addr,
			User:   url.UserPassword(server.Username, server.Password),
			Path:   fmt.Sprint("/", server.DB),
		},
	}

	b := &buyer{heard: make(chan Output, 1000)}
	var err error
	b.Child, err = launch.Start(func(o Output) {
		select {
		case b.heard <- o:
		default: // more lines than were asked for; Close would wait for a hear that blocks
		}
	})
	return b, err
}

// Close ends the program.
func (b *buyer) Close() error {
	b.Child.Close()
	return nil
}

// Ready returns when the program has answered for the first time: it has
// started, and has connected.
func (b *buyer) Ready(ctx context.Context) error {
	order := Buy(market.Order{Buyer: 1, Seller: 2, Price: 1})
	_, err := b.ask(ctx, StartLimit, order, BuyAnswers)
	if market.Refused(err) {
		return nil
	}
	return err
}

// Purchase implements market.Purchaser. The number of retries is the one that
// the program says.
func (b *buyer) Purchase(ctx context.Context, o market.Order) (r market.Receipt, err error) {
	answer, err := b.ask(ctx, AnswerLimit, Buy(o), BuyAnswers)
	if err != nil || answer.Line == Bought {
		return r, err
	}

	_, err = fmt.Sscanf(answer.Line, Bought+" %d", &r.Retries)
	if err != nil || r.Retries < 0 {
		err = b.wrong(Buy(o), fmt.Errorf("said %s, not \"bought RETRIES\"", answer.Quoted()))
	}
	return r, err
}

// List implements market.Purchaser.
func (b *buyer) List(ctx context.Context, l market.Listing) (r market.Receipt, err error) {
	_, err = b.ask(ctx, AnswerLimit, List(l), ListAnswers)
	return r, err
}

// ask asks the program, and returns its answer, which has to begin with one of the words.
// Some mean an error. After a request without an answer it sends no other, and returns
// market.ErrNotSent.
func (b *buyer) ask(
	ctx context.Context, limit time.Duration, request, words string,
) (answer Output, err error) {
	if b.unanswered {
		return answer, market.ErrNotSent
	}

	// A program answers requests in their order: while one is unanswered, what it says next would
	// be taken for the answer to another.
	b.Tell(request)
	b.unanswered = true
	select {
	case answer = <-b.heard:
		b.unanswered = false
	case <-time.After(limit):
		return answer, b.wrong(request, SilentFor(limit))
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}

	outcome, _ := ParseOutcome(answer.Word())
	err = cmp.Or(answer.Expect(words), outcome)
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		err = b.wrong(request, fmt.Errorf("said %s: %w what it has done", answer.Quoted(), err))
	case err != nil && !market.Refused(err):
		err = b.wrong(request, err)
	}
	return answer, err
}

func (b *buyer) wrong(request string, cause error) error {
	return WrongAnswer(request, cause, b.LastLines())
}
