package strategies

import (
	"context"
	"errors"
	"io"
	"net"

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

// OpenFor makes the Purchaser of a worker, over marketsim's own client: it is a market.Open.
func (s Spec) OpenFor(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
	connect := func(ctx context.Context) (net.Conn, error) { return w.Dial(ctx, "", "") }
	dial := func(ctx context.Context) (*backend.Conn, error) { return backend.DialOver(ctx, connect) }
	c, err := Connect(ctx, s, dial, Env{Keys: w.Keys, Steps: w.Steps})
	if err != nil {
		return nil, nil, err
	}
	return c.Purchaser, c, nil
}
