// Package wire cuts a connection to Redis at a chosen command, for tests of what a client makes of an outcome that it
// was not told. It gives a test a [proxy.Proxy], which can do more.
package wire

import (
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	proxy "github.com/marketsim/marketsim/market/backend/wire"
)

// A Proxy stands before a server and passes everything on until it is told to cut.
type Proxy struct {
	*proxy.Proxy
	server *backend.Server
	armed  *proxy.Trap // nil: nothing yet
}

// Start starts a proxy before a server for the length of the test.
func Start(t testing.TB, s *backend.Server) *Proxy {
	t.Helper()
	p, err := proxy.Start(s.Target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the proxy: %v", err)
		}
	})
	return &Proxy{Proxy: p, server: backend.NewServer(s.Kind, p.Target(), "proxy of "+s.Detail, nil)}
}

// Server is the server as seen through the proxy.
func (p *Proxy) Server() *backend.Server { return p.server }

// LoseReply makes the next command called name be executed and its connection then be cut, so that its reply is lost.
// When the client notices, the command has been executed. It takes the place of an earlier cut that has not happened.
func (p *Proxy) LoseReply(name string) { p.arm(p.Proxy.LoseReply, name) }

// LoseCommand makes the connection be cut before the next command called name reaches the server. It takes the place of
// an earlier cut that has not happened.
func (p *Proxy) LoseCommand(name string) { p.arm(p.Proxy.LoseCommand, name) }

func (p *Proxy) arm(set func(proxy.Match) *proxy.Trap, name string) {
	if p.armed != nil {
		p.armed.Open()
	}
	p.armed = set(proxy.Match{Command: name})
}
