package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// sites are where so many markets lie, all under the prefix of a run. On a cluster each lies in the slot of its braces.
// They are spread evenly over the masters that there are now, unless the prefix itself has braces. Nothing is drawn:
// the same cluster and prefix have the same sites.
func sites(server *backend.Server, run market.Keys, number int) (all []bench.Site, err error) {
	for i := range number {
		keys := run
		if number > 1 {
			keys, err = nth(server, run, i)
		}
		if err != nil {
			return nil, err
		}
		if server.Cluster() != nil && !braced(keys) {
			prefix := run.Prefix()
			return nil, usageError{fmt.Errorf("--prefix %s: on a Redis Cluster the keys of a market lie on one slot, that "+
				"of what stands between braces: give a prefix such as %s", prefix, quote("{"+strings.Trim(prefix, "{}:")+"}:"))}
		}
		at := keys.Prefix()
		all = append(all, bench.Site{Keys: keys, Node: server.Master(at).Addr, Dial: server.Dialer(at)})
	}
	return all, nil
}

// braced reports whether all keys lie on one slot of a cluster.
func braced(keys market.Keys) bool { return backend.Slot(keys.Prefix()) == backend.Slot(keys.Market()) }

// nth are the keys of market i, from 0, of a run with several, which begin with the run's prefix. The first has that
// prefix alone. On a cluster, unless that has braces, each has some of its own, with a second number that takes it to
// the i-th master after that of the first.
func nth(server *backend.Server, run market.Keys, i int) (market.Keys, error) {
	cluster := server.Cluster()
	switch {
	case cluster != nil && !braced(run):
	case i == 0:
		return run, nil
	default:
		return market.NewKeys(fmt.Sprintf("%smarket-%d:", run.Prefix(), i+1))
	}
	masters := cluster.Masters()
	at := func(keys market.Keys) int { return slices.Index(masters, cluster.Master(keys.Prefix())) }
	first, err := market.NewKeys(run.Prefix() + "{market-1}:")
	if i == 0 || err != nil {
		return first, err
	}
	keys, err := market.NewKeys(fmt.Sprintf("%s{market-%d}:", run.Prefix(), i+1))
	for k := 1; err == nil && at(keys) != (at(first)+i)%len(masters); k++ {
		keys, err = market.NewKeys(fmt.Sprintf("%s{market-%d.%d}:", run.Prefix(), i+1, k))
	}
	return keys, err
}
