package explore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/markettest"
)

// errElsewhere is returned, wrapped, for a spec whose lock does not live in the servers of a program.
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
	has := lock.NeedsNothing
	if m.LockServers > 1 {
		has = lock.NeedsMasters
		short[param.Poll] *= 2 // each try is a request to each of them, and another to give back
	}
	if kind, _ := spec.Lock(); kind.Needs != has {
		needs := cmp.Or(string(kind.Needs), "one Redis")
		return spec, fmt.Errorf("%s cannot be explored in %s: %w: %s", spec, m.Name, errElsewhere, needs)
	}
	if has == lock.NeedsMasters { // chance would make the same choices lead to different points
		with, err := c.Parse(spec.String() + ":jitter=0")
		if err == nil { // it does not give the parameter
			spec = with
		}
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

// openSpec makes the Purchasers of a spec, whose locks may have servers of their own.
func openSpec(spec strategies.Spec, lockServers int) markettest.SessionOpener {
	return func(ctx context.Context, s *explore.Session, keys market.Keys) (market.Purchaser, io.Closer, error) {
		env := strategies.Env{Keys: keys, Now: s.Now}
		if lockServers == 1 {
			env.Locks = s.DialLocks(0)
		}
		for n := range lockServers {
			dial := s.DialLocks(n)
			master := func(ctx context.Context) (*redis.Client, error) { return backend.Client(dial(ctx)) }
			env.Servers.Masters = append(env.Servers.Masters, master)
		}
		c, err := strategies.Connect(ctx, spec, s.Dial, env)
		if err != nil {
			return nil, nil, err
		}
		return c.Purchaser, c, nil
	}
}
