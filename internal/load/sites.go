package load

import (
	"crypto/rand"
	"slices"
	"sync"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
)

// A Site is where one market of a row lies.
type Site struct {
	Keys   market.Keys
	Market redisconn.Dialer // connects to its server, or to the master of its slot
}

// OwnKeys are keys under a prefix that no other run has, so that runs beside each other do not
// meet: for one market in one slot, and for several so that each has a slot of its own, see [Sites].
func OwnKeys(markets int) (market.Keys, error) {
	if markets > 1 {
		return market.NewKeys("marketsim:" + rand.Text() + ":")
	}
	return market.NewKeys("marketsim:{" + rand.Text() + "}:")
}

// Sites are places for n markets of a run, under its prefix and a number in braces: "mine:{1}:"
// is the first. On a Redis Cluster each lies on the master after that of the market before, so
// that as many markets as there are masters lie on one each. If run's own prefix has braces,
// they put all markets on one slot.
//
// The places are the same at each call, and those of fewer markets are the first of those of
// more. Of one market there are none: it lies under run's prefix itself. An error wraps
// market.ErrPrefix: run's prefix is too long to be continued.
func Sites(on *backend.Server, run market.Keys, n int) (all []Site, err error) {
	if n < 2 {
		return nil, nil
	}

	var first, second market.Keys
	first, err = marketstore.Numbered(run, 1)
	if err == nil {
		second, err = marketstore.Numbered(run, 2)
	}
	if err != nil {
		return nil, err
	}
	spread := on.Cluster() != nil && redisconn.Slot(first.Prefix()) != redisconn.Slot(second.Prefix())

	for number := 1; len(all) < n; number++ {
		keys, err := marketstore.Numbered(run, number)
		if err != nil {
			return nil, err
		}
		if spread && !follows(on.Cluster(), first, keys, len(all)) {
			continue // another number chooses the master that is next
		}
		all = append(all, Site{Keys: keys, Market: on.Dialer(keys.Prefix())})
	}
	return all, nil
}

// follows reports whether a market lies so many masters after the first market.
func follows(cluster *redisconn.Cluster, first, keys market.Keys, after int) bool {
	masters := cluster.Masters()
	number := func(keys market.Keys) int {
		at := cluster.Master(keys.Prefix()).Addr
		return slices.IndexFunc(masters, func(m redisconn.Target) bool { return m.Addr == at })
	}
	return number(keys) == (number(first)+after)%len(masters)
}

// newMarkets are the markets of a row. Seller i and buyer i work in market i modulo their
// number.
func newMarkets(p result.Point, o Options) (all []*rowMarket) {
	sites := o.Sites
	if len(sites) == 0 {
		sites = []Site{{Keys: o.Keys, Market: o.Servers.Market}}
	}

	for i, site := range sites {
		m := &rowMarket{
			Options:  o,
			point:    partOf(p, len(sites), i),
			relisted: &bell{Cond: sync.NewCond(new(sync.Mutex))},
		}
		m.Keys = site.Keys
		m.Servers.Market = site.Market
		m.stock = listings(m.point, len(sites))
		all = append(all, m)
	}

	// Each market's note names the run; that of the first names the others, so that all can be
	// found from the run's prefix, and removed.
	if len(o.Sites) > 0 {
		for _, m := range all {
			m.note = &marketstore.SeveralNote{Run: o.Keys}
		}
		for _, m := range all[1:] {
			all[0].note.Others = append(all[0].note.Others, m.Keys)
		}
	}
	return all
}

// partOf is the part that market i of n has of a point's workers, accounts and items.
func partOf(p result.Point, n, i int) result.Point {
	for _, all := range []*int{&p.Mix.Sellers, &p.Mix.Buyers, &p.Wallets, &p.Hot, &p.Stock} {
		*all = share(*all, n, i)
	}
	return p
}

// share is how many of some things belong to owner i of n, from 0, if they are divided evenly:
// thing k to owner k%n, as newMeasurement divides workers among markets.
func share(things, n, i int) int { return (things + n - 1 - i) / n }
