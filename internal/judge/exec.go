package judge

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// Strategy has a program buy and list, a process for each worker. Its locks
// last for as long as the book's.
func Strategy(name string, command []string) strategies.Strategy {
	return strategies.Strategy{
		Name: name, Elsewhere: true,
		New: func(env strategies.Env) (market.Purchaser, io.Closer, error) {
			server := env.Redis.Options()
			user := url.UserPassword(server.Username, server.Password)
			l := launch{name: name, command: command, prefix: env.Keys.Prefix(), lease: 10 * time.Second}
			l.server = url.URL{Scheme: "redis", Host: server.Addr, User: user}
			said := make(chan string, 1000)
			run, err := l.start(func(_ *life, line string) {
				select {
				case said <- line:
				default: // more lines than were asked for
				}
			})
			b := &buyer{life: run, said: said}
			return b, b, err
		},
	}
}

// A buyer is one process of a program: a Purchaser of which nothing is known
// but its answers.
type buyer struct {
	*life
	said  chan string
	owing bool // it has not answered in time: its next line may be about that
}

// Close ends the program. It does not wait for processes in other groups, which may
// keep the program's output open.
func (b *buyer) Close() error {
	b.signal(end)
	_ = b.cmd.Process.Kill() // where there are no groups
	_ = b.in.Close()         // it may be closed already
	select {
	case <-b.ended:
	case <-time.After(time.Second):
	}
	return nil
}

// Ready returns when the program has answered for the first time: it has
// started, and has connected.
func (b *buyer) Ready(ctx context.Context) error {
	_, err := b.ask(ctx, starting, buys(market.Order{Buyer: 1, Seller: 2, Price: 1}), purchased)
	if market.Refused(err) {
		return nil
	}
	return err
}

// Purchase implements market.Purchaser. The number of retries is the one that
// the program says.
func (b *buyer) Purchase(ctx context.Context, o market.Order) (r market.Receipt, err error) {
	said, err := b.ask(ctx, silence, buys(o), purchased)
	if err == nil && said != "bought" {
		_, err = fmt.Sscanf(said, "bought %d", &r.Retries)
		if err != nil || r.Retries < 0 {
			err = b.wrong(buys(o), fmt.Errorf("said %s, not \"bought RETRIES\"", quoted(said)))
		}
	}
	return r, err
}

// List implements market.Purchaser.
func (b *buyer) List(ctx context.Context, l market.Listing) (r market.Receipt, err error) {
	_, err = b.ask(ctx, silence, fmt.Sprint("list ", l.Item, " ", l.Seller, " ", l.Price), "listed busy error")
	return r, err
}

// ask tells the program a line, and returns its answer, which has to begin with one of
// the words. Some mean an error.
func (b *buyer) ask(ctx context.Context, limit time.Duration, line, words string) (said string, err error) {
	if b.owing {
		return "", market.ErrNotSent
	}
	b.say(line)
	b.owing = true
	heard := ""
	select {
	case heard = <-b.said:
		b.owing = false
	case <-time.After(limit):
		return "", b.wrong(line, silentFor(limit))
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	said = strings.TrimSpace(heard)
	word, _, _ := strings.Cut(said, " ")
	err = cmp.Or(among(heard, words), refusals[word])
	switch {
	case err == errUntold:
		err = b.wrong(line, fmt.Errorf("said %s: %w what it has done", quoted(said), errUntold))
	case err != nil && !market.Refused(err):
		err = b.wrong(line, err)
	}
	return said, err
}

func (b *buyer) wrong(told string, how error) error { return wrong(told, how, b.lastSaid()) }
