package bench

import (
	"context"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market/backend"
)

// A node is a server of a row, with the markets that lie there when the row begins: one master of several on a Redis
// Cluster, elsewhere the only one.
type node struct {
	usageReader
	address string
	markets []*rowMarket
}

// openNodes connects to the servers of the markets, which are open, to read what they use.
func (ws *Workers) openNodes(ctx context.Context) (all []*node) {
	for _, m := range ws.markets {
		i := slices.IndexFunc(all, func(n *node) bool { return n.address == m.node })
		if i < 0 {
			i = len(all)
			all = append(all, &node{usageReader: openUsage(ctx, m.here()), address: m.node})
		}
		all[i].markets = append(all[i].markets, m)
	}
	return all
}

// here is how to connect to the server where the market lies now, and to stay there.
func (m *rowMarket) here() func(context.Context) (*backend.Conn, error) {
	if m.cluster == nil {
		return m.Dial
	}
	return func(ctx context.Context) (*backend.Conn, error) {
		return backend.Dial(ctx, m.cluster.Master(m.Keys.Prefix()))
	}
}

// used reads what servers and this process have used.
func (m *measurement) used() usage {
	u := usage{client: readClient()}
	for _, n := range m.nodes {
		u.servers = append(u.servers, n.server())
	}
	return u
}

// serversUse is what each server used in the row. It is not known of one that a market left meanwhile.
func (m *measurement) serversUse() []serverUsage {
	all := make([]serverUsage, len(m.nodes))
	for i, n := range m.nodes {
		all[i] = m.stopped.usage.servers[i].sub(m.warmed.usage.servers[i])
		if slices.ContainsFunc(n.markets, func(m *rowMarket) bool {
			return m.cluster != nil && m.cluster.Master(m.Keys.Prefix()).Addr != m.home.Addr
		}) {
			all[i].known = false
		}
	}
	return all
}

// together is what servers used together, if all tell.
func together(servers []serverUsage) serverUsage {
	all := serverUsage{known: len(servers) > 0, commands: map[string]float64{}}
	for _, s := range servers {
		all.known = all.known && s.known
		all.user, all.sys = all.user+s.user, all.sys+s.sys
		for name, us := range s.commands {
			all.commands[name] += us
		}
	}
	return all
}

// perNode says what each node had of a row with several markets.
func (m *measurement) perNode(servers []serverUsage, seconds float64) (all []result.Node) {
	if len(m.markets) < 2 {
		return nil
	}
	for i, n := range m.nodes {
		of := result.Node{Address: n.address, Markets: len(n.markets)}
		for _, w := range m.buyers {
			if slices.Contains(n.markets, w.market) {
				of.Bought += w.recorder.count[bought]
			}
		}
		of.PurchasesPerSecond = float64(of.Bought) / seconds
		if of.Bought > 0 && servers[i].known {
			us := (servers[i].user + servers[i].sys) * 1e6 / float64(of.Bought)
			of.ServerUS = &us
		}
		all = append(all, of)
	}
	return all
}
