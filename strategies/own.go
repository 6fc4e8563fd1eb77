package strategies

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// Own is the spec of a strategy of one's own, to be measured as those of a catalogue are. It is opened by [Connect], as
// bench does. What its connections carry counts as the worker's own, with what its client says to introduce itself.
// Where a run leaves keys of its own, name them in the Keys of its [Strategy], and add that to a [Catalogue].
func Own(name string, open market.Open) Spec {
	return Spec{strategy: Strategy{Name: name, New: func(env Env) (market.Purchaser, io.Closer, error) {
		if env.connect == nil {
			return nil, nil, errors.New("it is opened by strategies.Connect")
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return env.connect(ctx) }
		return open.For(context.Background(), market.Worker{Dial: dial, Keys: env.Keys, Steps: env.Steps})
	}}}
}

// OpenFor makes the Purchaser of a worker, over marketsim's own client: it is a market.Open. A lock takes the one
// server of locks that the worker has, or all of several as its masters.
func (s Spec) OpenFor(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
	to := func(addr string) Dialer {
		connect := func(ctx context.Context) (net.Conn, error) { return w.Dial(ctx, "tcp", addr) }
		return func(asked context.Context) (*backend.Conn, error) {
			return backend.DialOver(backend.Inherit(asked, ctx), connect)
		}
	}
	env := Env{Keys: w.Keys, Steps: w.Steps, Now: w.Now}
	if len(w.LockServers) == 1 {
		env.Locks = to(w.LockServers[0])
	}
	for _, addr := range w.LockServers {
		dial := to(addr)
		master := func(ctx context.Context) (*redis.Client, error) { return backend.Client(dial(ctx)) }
		env.Servers.Masters = append(env.Servers.Masters, master)
	}
	c, err := Connect(ctx, s, to(""), env)
	if err != nil {
		return nil, nil, err
	}
	return c.Purchaser, c, nil
}
