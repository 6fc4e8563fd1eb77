// Package wire is a proxy between clients and a server. At a moment that its user
// chooses, it does what networks do by chance. [LocalConn] is a connection without a network;
// [Commands], [KeysOf] and [Texts] read the Redis protocol.
//
// [Start] starts a [Proxy] of any protocol. Its faults, Disconnect, Partition and
// HoldReplies, concern all connections, later ones too. Each replaces the one before, and
// Heal ends it. [StartRedis] starts one that also reads commands of Redis: a [Trap] holds
// or loses one command or its reply, and DropMessages drops the messages of
// subscriptions. When a client hangs up while its command is held back, that is executed
// all the same, as if a network's packets were late.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A fault is what happens to the bytes of all connections.
type fault int

const (
	none        fault = iota
	partition         // what either side says is delivered late
	holdReplies       // what the server says is delivered late
	disconnect        // a connection ends at its first byte
)

// A Proxy forwards connections to a server. Its methods are safe for concurrent use,
// except two at once that change the fault.
type Proxy struct {
	dial     func() (net.Conn, error) // to the server
	redis    bool                     // it reads commands
	ownUser  bool                     // it admits only connections of this user
	listener net.Listener
	running  sync.WaitGroup

	// What a proxy of Redis drops.
	dropMessages atomic.Bool
	dropped      atomic.Int64

	replies atomic.Int64 // pieces that servers have said

	mu      sync.Mutex
	closed  bool
	conns   map[*conn]bool
	fault   fault
	changed chan struct{} // closed when the fault changes
	traps   []*Trap       // that have caught nothing yet
	record  bool          // what commands come
	names   []string      // of those that came since
	clock   *Clock        // see SetClock
	gate    func(*Held)   // nil: there is none
	refused []int         // see Refused
}

// Start starts a proxy before the server at addr, host:port. If that cannot be reached,
// connections are closed at once.
func Start(addr string) (*Proxy, error) { return start(dialing("tcp", addr), false) }

// StartRedis starts a proxy before a Redis server. It reads what passes one command
// at a time, but not MONITOR, CLIENT REPLY or replication, and nothing that is
// encrypted: secure has to be nil.
func StartRedis(network, addr string, secure *tls.Config) (*Proxy, error) {
	if secure != nil {
		const refused = "starting a proxy before %s: it cannot read what is encrypted; use a server without TLS"
		return nil, fmt.Errorf(refused, addr)
	}
	return start(dialing(network, addr), true)
}

// StartGate is StartRedis before a server where dial has logged in, for clients of this user
// alone. See Gate.
func StartGate(dial func() (net.Conn, error)) (*Proxy, error) {
	return listen(&Proxy{dial: dial, redis: true, ownUser: true})
}

func dialing(network, addr string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial(network, addr) }
}

func start(dial func() (net.Conn, error), redis bool) (*Proxy, error) {
	return listen(&Proxy{dial: dial, redis: redis})
}

// listen has a proxy take connections.
func listen(p *Proxy) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a proxy: %w", err)
	}
	p.listener = listener
	p.conns = map[*conn]bool{}
	p.changed = make(chan struct{})
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where it listens, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and all its connections, and returns when nothing of it
// runs any more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	var err error
	if !p.closed {
		p.closed = true
		err = p.listener.Close()
	}
	p.mu.Unlock()

	p.Cut()
	p.running.Wait()
	return err
}

// Cut closes all connections on both sides before it returns. What was on its way is
// lost. Further ones are forwarded.
func (p *Proxy) Cut() {
	p.mu.Lock()
	var ends []chan struct{}
	for c := range p.conns {
		if c.server != nil { // else it may still wait for a server
			ends = append(ends, c.ended)
		}
		c.cut()
	}
	p.mu.Unlock()

	// Not locked: a connection locks p.mu before it ends.
	for _, ended := range ends {
		<-ended
	}
}

// Disconnect closes all connections, and until Heal further ones as soon as
// anything is said on them.
func (p *Proxy) Disconnect() {
	p.setFault(disconnect)
	p.Cut()
}

// Partition lets nothing pass in either direction from now on. What either side
// sends or closes waits for Heal.
func (p *Proxy) Partition() { p.setFault(partition) }

// HoldReplies holds back what the server says from now on, until Heal. What
// clients send passes.
func (p *Proxy) HoldReplies() { p.setFault(holdReplies) }

// Replies is how often the server has said something so far, also what is held back: when it
// grows, a request has been executed.
func (p *Proxy) Replies() int64 { return p.replies.Load() }

// Heal ends every fault and what DropMessages began. All that was held back is
// delivered, in order.
func (p *Proxy) Heal() {
	p.dropMessages.Store(false)
	p.setFault(none)
}

// setFault returns when every write that may not have seen the fault is over.
func (p *Proxy) setFault(f fault) {
	p.mu.Lock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	for _, s := range p.streams() {
		s.settle()
	}
}

// streams are those of the connections that have reached the server.
func (p *Proxy) streams() (all []*stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if c.server != nil {
			all = append(all, c.up, c.down)
		}
	}
	return all
}

// now is the fault, and what is closed when it changes.
func (p *Proxy) now() (fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// accept serves connections until Close closes the listener. Close misses none: one that it does
// not find in conns finds p.closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example because files ran out
			time.Sleep(10 * time.Millisecond)
			continue
		}

		c := &conn{proxy: p, client: client, ended: make(chan struct{})}
		c.whole, c.end = context.WithCancel(context.Background())
		p.mu.Lock()
		p.conns[c] = true
		if p.closed { // meanwhile
			c.cut()
		}
		p.mu.Unlock()

		p.running.Go(func() { p.serve(c) })
	}
}

// serve runs a connection, and forgets it when it has ended.
func (p *Proxy) serve(c *conn) {
	c.run()
	close(c.ended) // nothing reads from it any more: if it was cut, it is closed on both sides

	p.mu.Lock()
	defer p.mu.Unlock()
	c.cut()
	delete(p.conns, c)
}
