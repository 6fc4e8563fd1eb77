// Package plug lets tests pull the plug of a TCP connection: a forwarder that can be cut, and that can swallow what the
// server says.
package plug

import (
	"testing"

	"github.com/marketsim/marketsim/market/backend/wire"
)

// A Plug forwards connections to a server until it is pulled.
type Plug = wire.Line

// Start forwards a free port to server, host:port, for the length of the test.
func Start(t testing.TB, server string) *Plug {
	t.Helper()
	p, err := wire.Forward(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the forwarder: %v", err)
		}
	})
	return p
}
