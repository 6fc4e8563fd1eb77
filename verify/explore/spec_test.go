package explore_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/markettest"
)

// errElsewhere is returned, wrapped, for a spec whose lock does not live in the server in memory.
var errElsewhere = errors.New("its lock needs other servers")

// short are the parameters of explored specs that do not give them, by their roles: leases that a pause outlasts before
// a connection times out, and few polls, since each is a point of the schedule.
var short = map[param.Role]string{param.Lease: "1s", param.Poll: "300ms", param.Timeout: "4s"}

// parse parses a spec to be explored, with short leases and time-outs. The error wraps strategies.ErrSpec or
// errElsewhere.
func parse(c strategies.Catalogue, text string) (strategies.Spec, error) {
	spec, err := c.Parse(text)
	if err != nil {
		return spec, err
	}
	if kind, locked := spec.Lock(); locked && kind.Needs != lock.NeedsNothing {
		return spec, fmt.Errorf("%s cannot be explored: %w than one Redis in memory (%s)", spec, errElsewhere, kind.Needs)
	}
	for _, p := range spec.Params() {
		value, shortened := short[p.Role]
		if !shortened {
			continue
		}
		with, err := c.Parse(spec.String() + ":" + p.Name + "=" + value)
		if err == nil { // it does not give the parameter
			spec = with
		}
	}
	return spec, nil
}

// openSpec makes the Purchasers of a spec, whose locks may have a server of their own.
func openSpec(spec strategies.Spec, apart bool) markettest.Open {
	return func(ctx context.Context, s *explore.Session, keys market.Keys) (market.Purchaser, io.Closer, error) {
		env := strategies.Env{Keys: keys}
		if apart {
			env.Locks = func(ctx context.Context) (*backend.Conn, error) { return backend.DialOver(ctx, s.ConnectLocks) }
		}
		c, err := strategies.Connect(ctx, spec, s.Dial, env)
		if err != nil {
			return nil, nil, err
		}
		return c.Purchaser, c, nil
	}
}
