package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// sites are where so many markets lie, the first under first. On a cluster each lies in the slot of its braces,
// and they are spread evenly over the masters that there are now. Nothing is drawn: the same cluster and prefix
// have the same sites.
func sites(server *backend.Server, first market.Keys, number int) ([]bench.Site, error) {
	var masters []string
	if cluster := server.Cluster(); cluster != nil {
		if prefix := first.Prefix(); backend.Slot(prefix) != backend.Slot(first.Market()) {
			braced := "{" + strings.TrimSuffix(prefix, ":") + "}:"
			return nil, usageError{fmt.Errorf("--prefix %s: on a Redis Cluster the keys of a market lie on one slot, "+
				"that of what stands between braces: give a prefix such as %s", prefix, quote(braced))}
		}
		for _, master := range cluster.Masters() {
			masters = append(masters, master.Addr)
		}
	}
	var all []bench.Site
	for i := range number {
		keys := first
		if i > 0 {
			var err error
			keys, err = nth(server, first, i, masters)
			if err != nil {
				return nil, err
			}
		}
		all = append(all, bench.Site{
			Keys: keys,
			Node: server.Master(keys.Prefix()).Addr,
			Dial: server.Dialer(keys.Prefix()),
		})
	}
	return all, nil
}

// nth are the keys of the i-th market after the first, on the i-th master after that of the first if there are several.
// Their name is the first's with a number, and on a cluster with a second number that takes it to that master.
func nth(server *backend.Server, first market.Keys, i int, masters []string) (market.Keys, error) {
	keys, err := numbered(first, fmt.Sprintf("-%d", i+1))
	if len(masters) < 2 || err != nil {
		return keys, err
	}
	master := func(k market.Keys) string { return server.Cluster().Master(k.Prefix()).Addr }
	wanted := masters[(slices.Index(masters, master(first))+i)%len(masters)]
	for k := 1; master(keys) != wanted; k++ {
		keys, err = numbered(first, fmt.Sprintf("-%d.%d", i+1, k))
		if err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// numbered are keys whose prefix ends in a number, within its braces if it has any.
func numbered(keys market.Keys, number string) (market.Keys, error) {
	prefix := keys.Prefix()
	end := strings.Index(prefix, "}")
	if end < 0 {
		end = len(prefix) - 1 // before the colon
	}
	return market.NewKeys(prefix[:end] + number + prefix[end:])
}
