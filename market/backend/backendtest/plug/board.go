package plug

import (
	"sync"
	"testing"
)

// Plugs are those of one client's connections, one for each of several servers.
type Plugs []*Plug

// Addrs are where they listen, host:port.
func (p Plugs) Addrs() []string {
	addrs := make([]string, len(p))
	for i, one := range p {
		addrs[i] = one.Addr()
	}
	return addrs
}

// Board knows the plugs of many clients of the same servers.
type Board[C comparable] struct {
	servers []string
	mu      sync.Mutex
	clients map[C]Plugs
}

// NewBoard makes one for the servers.
func NewBoard[C comparable](servers []string) *Board[C] {
	return &Board[C]{servers: servers, clients: map[C]Plugs{}}
}

// Plugs forwards a free port to each server for the length of the test.
func (b *Board[C]) Plugs(t testing.TB) Plugs {
	t.Helper()
	var all Plugs
	for _, server := range b.servers {
		all = append(all, Start(t, server))
	}
	return all
}

// Connect notes whose the plugs are.
func (b *Board[C]) Connect(client C, plugs Plugs) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients[client] = plugs
}

// Pull pulls all plugs of the clients that match.
func (b *Board[C]) Pull(match func(client C) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for client, plugs := range b.clients {
		if match(client) {
			for _, p := range plugs {
				p.Pull()
			}
		}
	}
}
