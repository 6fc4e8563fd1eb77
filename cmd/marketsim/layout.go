package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/spread"
	"github.com/marketsim/marketsim/strategies"
)

// The values of --layout.
const (
	layoutSlot   = "slot"   // the keys of a market share a slot
	layoutSpread = "spread" // they share none
)

// crossSlot is why a strategy is for one layout.
const crossSlot = "WATCH, MULTI and a script reach the keys of one slot only (CROSSSLOT)"

// forSpread are the strategies for markets whose keys share no slot, in words.
func forSpread() string {
	var names []string
	for _, s := range strategies.Spread() {
		names = append(names, s.Name)
	}
	return english.WordSeries(names, "and")
}

// checkLayout refuses strategies that are made for another layout.
func checkLayout(specs []rowSpec, layout string) error {
	if layout != layoutSlot && layout != layoutSpread {
		return usageError{fmt.Errorf("--layout %s: want %s or %s", layout, layoutSlot, layoutSpread)}
	}
	for _, s := range specs {
		switch spreads := s.spec.Strategy().Spread; {
		case spreads && layout == layoutSlot:
			return usageError{fmt.Errorf("%s is for a market whose keys share no slot: give 'marketsim run --backend cluster --layout %s'",
				s.spec, layoutSpread)}
		case !spreads && layout == layoutSpread:
			return usageError{fmt.Errorf("--layout %s: %s cannot work where keys share no slot, because %s; %s can", layoutSpread, s.spec,
				crossSlot, forSpread())}
		}
	}
	return nil
}

// checkSpread refuses flags that a market has only in one slot.
func (f runFlags) checkSpread() error {
	if f.layout != layoutSpread {
		return nil
	}
	switch w := f.workload; {
	case w.hot > 0 || w.stock > 0:
		return usageError{errors.New("--hot and --stock list many items at once, which takes keys that share a slot: leave out --layout")}
	case w.markets > 1:
		return usageError{errors.New("--markets makes markets whose keys share a slot each: leave out --layout")}
	case f.browsers > 0:
		return usageError{errors.New("--browsers look at several keys at once, which have to share a slot: leave out --layout")}
	case f.chaos.wanted():
		return usageError{errors.New("--chaos starts one server, and --layout spread needs a cluster: give one of them")}
	}
	return nil
}

// spreadOut prepares rows in the layout spread. A prefix that was drawn loses the braces that put its keys on one slot.
func (c *sessionConfig) spreadOut() (err error) {
	c.spreads = true
	if c.freshPrefix {
		c.base.Keys, err = market.NewKeys(strings.NewReplacer("{", "", "}", "").Replace(c.base.Keys.Prefix()))
	}
	return errors.Join(err, spread.CheckKeys(c.base.Keys))
}

// lay tells the rows where the keys of their markets lie.
func (s *session) lay() error {
	prefix := s.config.base.Keys.Prefix()
	if !s.config.spreads {
		return oneSlot(s.server, prefix)
	}
	cluster := s.server.Cluster()
	if cluster == nil {
		return usageError{fmt.Errorf("--layout %s: the server is no Redis Cluster, and has no slots: give --backend cluster, or a node "+
			"of yours with --redis; or leave --layout out, which is for %s, because elsewhere no key needs a slot of its own",
			layoutSpread, forSpread())}
	}
	for i := range s.rows {
		s.rows[i].Spread = cluster
	}
	return nil
}

// noteKey is the key on whose server a market is found again.
func (s *session) noteKey() string {
	if s.config.spreads {
		return s.config.base.Keys.Run()
	}
	return s.config.base.Keys.Prefix()
}

// occupiedAnywhere is an error if any master of the cluster has keys under the prefix.
func (s *session) occupiedAnywhere(ctx context.Context) error {
	return eachMaster(ctx, s.server, func(conn *backend.Conn) error {
		return market.Occupied(ctx, conn.Client, s.config.base.Keys)
	})
}
