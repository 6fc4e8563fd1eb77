package explore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/markettest"
)

// errElsewhere is returned, wrapped, for a spec whose lock does not live in the server in memory.
var errElsewhere = errors.New("its lock needs other servers")

// parse parses a spec to be explored, with the leases and time-outs of a market's clients, and few polls, since each
// is a point of the schedule. The error wraps strategies.ErrSpec or errElsewhere.
func parse(c strategies.Catalogue, text string, m markettest.Market) (strategies.Spec, error) {
	short := map[param.Role]time.Duration{
		param.Lease: m.Lease, param.Poll: m.Lease * 3 / 10, param.Timeout: m.Patience,
	}
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
		with, err := c.Parse(spec.String() + ":" + p.Name + "=" + value.String())
		if err == nil { // it does not give the parameter
			spec = with
		}
	}
	return spec, nil
}

// openSpec makes the Purchasers of a spec, whose locks may have a server of their own.
func openSpec(spec strategies.Spec, apart bool) markettest.Open {
	return func(ctx context.Context, s *explore.Session, keys market.Keys) (market.Purchaser, io.Closer, error) {
		env := strategies.Env{Keys: keys, Now: s.Now}
		if apart {
			env.Locks = s.DialLocks
		}
		c, err := strategies.Connect(ctx, spec, s.Dial, env)
		if err != nil {
			return nil, nil, err
		}
		return c.Purchaser, c, nil
	}
}
