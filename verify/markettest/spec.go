package markettest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/explore"
)

// ErrElsewhere is returned, wrapped, for a spec whose lock does not live in the servers of a market.
var ErrElsewhere = errors.New("its lock needs other servers")

// Spec parses a spec to be explored in this market, with the leases and time-outs of its clients, and few polls, since
// each is a point of the schedule. The error wraps strategies.ErrSpec or ErrElsewhere.
func (m Market) Spec(c strategies.Catalogue, text string) (strategies.Spec, error) {
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
		return spec, fmt.Errorf("%s cannot be explored in %s: %w: %s", spec, m.Name, ErrElsewhere, needs)
	}
	var params []string
	if has == lock.NeedsMasters { // chance would make the same choices lead to different points
		params = append(params, "jitter=0")
	}
	for _, p := range spec.Params() {
		if value, shortened := short[p.Role]; shortened {
			params = append(params, p.Name+"="+value.String())
		}
	}
	for _, p := range params {
		with, err := c.Parse(spec.String() + ":" + p)
		if err == nil { // it does not give the parameter
			spec = with
		}
	}
	return spec, nil
}

// Broken is the promise that a harm in this market breaks; empty: none that was made. Without a fault, and where its
// clients only pause or die and it takes no lock that could expire, a strategy promises that items or accounts stay
// right, if its lock is exclusive. Where clocks alone step, a lock may promise that clients' clocks may be wrong.
func (m Market) Broken(spec strategies.Spec, f explore.Found) string {
	is, promise := spec.Strategy().Protects, "no item is sold twice, and no coin is lost"
	protects := is.Items
	if strings.HasPrefix(m.Name, "one-account") {
		protects, promise = is.Accounts, "an account that several spend from is not overdrawn"
	}
	_, locks := spec.Lock()
	promises := spec.Promises()
	only := func(faults ...explore.Fault) bool {
		return !slices.ContainsFunc(f.Struck, func(s explore.Fault) bool { return !slices.Contains(faults, s) })
	}
	switch {
	case !protects || locks && !promises.Exclusive:
	case only() || !locks && only(explore.Pause, explore.Die):
		return promise
	case only(explore.Clock) && promises.ClockIndependent:
		return "clock-independent"
	}
	return ""
}
