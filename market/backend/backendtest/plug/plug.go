// Package plug lets tests pull the plug of a TCP connection: a forwarder that can be cut, and that can swallow what the
// server says.
package plug

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Plug forwards connections to a server until it is pulled.
type Plug struct {
	listener net.Listener
	server   string
	work     sync.WaitGroup

	mu     sync.Mutex
	pulled bool
	mute   bool
	conns  map[net.Conn]struct{}
}

// Start forwards a free port to server for the length of the test.
func Start(t testing.TB, server string) *Plug {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Plug{listener: l, server: server, conns: map[net.Conn]struct{}{}}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Pull()
		p.work.Wait()
	})
	return p
}

// Addr is where it listens, host:port.
func (p *Plug) Addr() string { return p.listener.Addr().String() }

// Pull cuts all connections, and further ones as soon as they are made.
func (p *Plug) Pull() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulled = true
	p.cut()
}

// Cut cuts all connections. Further ones are forwarded, and what servers say on them is passed on again.
func (p *Plug) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = false
	p.cut()
}

// Mute swallows what the server says from now on: its clients know no more whether their requests were served.
func (p *Plug) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

func (p *Plug) cut() {
	for c := range p.conns {
		c.Close()
	}
}

func (p *Plug) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		if !p.track(client, server) {
			continue
		}
		p.work.Go(func() {
			_, _ = io.Copy(server, client)
			p.drop(client, server)
		})
		p.work.Go(func() {
			_, _ = io.Copy(voice{client, p}, server)
			p.drop(client, server)
		})
	}
}

// track reports false when the plug is pulled.
func (p *Plug) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
		if p.pulled {
			c.Close()
		}
	}
	return !p.pulled
}

func (p *Plug) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

// voice is the way from the server to a client.
type voice struct {
	client net.Conn
	plug   *Plug
}

func (v voice) Write(b []byte) (int, error) {
	v.plug.mu.Lock()
	mute := v.plug.mute
	v.plug.mu.Unlock()
	if mute {
		return len(b), nil
	}
	return v.client.Write(b)
}
