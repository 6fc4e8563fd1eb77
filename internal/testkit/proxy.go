package testkit

import (
	"testing"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend"
)

// A Proxy stands before a Redis server and loses a chosen command or reply, for tests of what a client makes of an
// outcome that it does not know.
type Proxy struct {
	*wire.Proxy
	server *backend.Server
	lost   *wire.Trap // nil: nothing yet
}

// StartProxy starts a proxy before a server for the length of the test.
func StartProxy(t testing.TB, s *backend.Server) *Proxy {
	t.Helper()
	p := started[*wire.Proxy](t, "redis")(wire.StartRedis(s.Target.Network, s.Target.Addr, s.Target.TLS))
	return &Proxy{Proxy: p, server: backend.NewServer(s.Name, s.Target.Through(p.Addr()), "proxy of "+s.Detail, nil)}
}

// Server is the server as seen through the proxy.
func (p *Proxy) Server() *backend.Server { return p.server }

// LoseReply loses the reply to the next command of that name, and its connection. When the client notices, the command
// has been executed. It takes the place of an earlier loss that has not happened.
func (p *Proxy) LoseReply(name string) { p.lose(p.Proxy.LoseReply, name) }

// LoseCommand loses the next command of that name, and its connection, before it reaches the server. It takes the place
// of an earlier loss that has not happened.
func (p *Proxy) LoseCommand(name string) { p.lose(p.Proxy.LoseCommand, name) }

func (p *Proxy) lose(set func(wire.Match) *wire.Trap, name string) {
	if p.lost != nil {
		p.lost.Open()
	}
	p.lost = set(wire.Match{Command: name})
}

// Proxies are those of one client, one for each of several servers.
type Proxies []*wire.Proxy

// StartProxies starts a proxy before each server, host:port, for the length of the test.
func StartProxies(t testing.TB, servers []string) Proxies {
	t.Helper()
	var all Proxies
	for _, addr := range servers {
		all = append(all, started[*wire.Proxy](t, "redis")(wire.Start(addr)))
	}
	return all
}

// Addrs are where they listen, host:port.
func (p Proxies) Addrs() []string {
	addrs := make([]string, len(p))
	for i, one := range p {
		addrs[i] = one.Addr()
	}
	return addrs
}

// Disconnect closes the client's connections, and all that it makes from now on.
func (p Proxies) Disconnect() {
	for _, one := range p {
		one.Disconnect()
	}
}
