package subjects

import (
	"cmp"
	"context"
	"io"
	"os"
	"sync/atomic"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// StartServer starts the server of a benchmark, chosen as the command chooses:
// REDIS_URL, else a redis-server of this machine, else the embedded one, whose
// numbers are not Redis's.
func StartServer(b *testing.B) *backend.Server {
	b.Helper()
	var url *redisconn.Target
	if raw := os.Getenv("REDIS_URL"); raw != "" {
		target, err := redisconn.ParseURL(raw)
		if err != nil {
			b.Fatalf("REDIS_URL: %v", err)
		}
		target.Password = cmp.Or(target.Password, os.Getenv("REDIS_PASSWORD"))
		url = &target
	}

	started, err := backend.Start(context.Background(), "", url, backend.Local{}, backend.Embedded{})
	server := testkit.Must(started, err)(b)
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	return server
}

// An Opener makes a Purchaser, as strategies.Strategy.New does.
type Opener = func(strategies.Env) (market.Purchaser, io.Closer, error)

// WithOpener is a spec whose Purchasers are made by what wrap makes of its Opener.
func WithOpener(spec strategies.Spec, wrap func(Opener) Opener) strategies.Spec {
	s := spec.Strategy()
	s.New = wrap(s.New)
	known := strategies.Catalogue{Strategies: []strategies.Strategy{s}, Locks: catalogue.Full().Locks}
	opening, err := known.Parse(spec.String())
	if err != nil {
		panic(err) // a spec is written as it is parsed
	}
	return opening
}

// Tampered is a spec whose Purchasers a test watches or spoils.
func Tampered(spec strategies.Spec, wrap func(market.Purchaser) market.Purchaser) strategies.Spec {
	return WithOpener(spec, func(open Opener) Opener {
		return func(env strategies.Env) (market.Purchaser, io.Closer, error) {
			p, closer, err := open(env)
			return wrap(p), closer, err
		}
	})
}

// Limited makes of a subject one whose row ends after n purchases, as if its user had
// stopped it then. They are counted when who made one wants another: a row that ended
// before a purchase has returned would be without it.
func Limited(
	ctx context.Context, s strategies.Spec, purchases int) (context.Context, strategies.Spec) {

	ctx, stop := context.WithCancel(ctx)
	l := &limited{over: ctx.Done(), stop: stop, allowed: make(chan struct{}, purchases)}
	for range purchases {
		l.allowed <- struct{}{}
	}
	return ctx, Tampered(s, func(p market.Purchaser) market.Purchaser {
		return &limitedPurchaser{Purchaser: p, limited: l}
	})
}

type limited struct {
	over    <-chan struct{}
	stop    func()
	allowed chan struct{} // a purchase each
	made    atomic.Int64  // by those who are back
}

type limitedPurchaser struct {
	market.Purchaser
	limited *limited
	bought  bool
}

// Purchase first counts the one before, if that was made, and stops the row after the last. It
// then needs one that is still allowed, which it gives back if nothing was bought.
func (p *limitedPurchaser) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	l := p.limited
	if p.bought && l.made.Add(1) == int64(cap(l.allowed)) {
		l.stop()
	}

	p.bought = false
	select {
	case <-l.allowed:
	case <-l.over:
		return market.Receipt{}, market.ErrContended
	case <-ctx.Done():
		return market.Receipt{}, market.ErrContended
	}

	receipt, err := p.Purchaser.Purchase(ctx, o)
	p.bought = err == nil
	if !p.bought {
		l.allowed <- struct{}{} // for whoever tries next
	}
	return receipt, err
}
