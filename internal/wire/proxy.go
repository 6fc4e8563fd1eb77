// Package wire is a proxy between clients and a server. It does there, at a moment that its user chooses, what networks
// do by chance.
//
// [Start] starts a [Proxy] that forwards the bytes of any protocol. Its faults concern all connections, those to come
// included:
//
//	Cut         ends the connections that there are
//	Disconnect  ends them, and every further one at its first byte, until Heal
//	Partition   lets nothing pass, and delivers it after Heal
//	SetFault    does something else to one direction, until Heal: see [Fault]
//
// [StartRedis] starts a proxy that also reads the commands of the Redis protocol. There, a [Trap] holds or loses one
// command or its reply, chosen by a [Match], and DropMessages drops the messages of subscriptions.
//
// A connection passes on what it was given in order and without gaps, or it ends. A client that gives up and hangs up
// while its command is held back has it executed afterwards all the same, as on a network whose packets are late.
package wire

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

// acceptAgain is how long to wait after a connection could not be accepted, for example because files ran out.
const acceptAgain = 10 * time.Millisecond

// A Proxy forwards connections, numbered from 1 in their order of arrival, to a server. Its methods are safe for
// concurrent use.
type Proxy struct {
	target   backend.Target
	addr     string
	redis    bool // it reads commands
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	accepted int
	conns    map[*conn]bool
	faults   [2]*Fault     // by Direction; never nil
	changed  chan struct{} // closed when faults change
	commands commands      // what a proxy of Redis knows
}

// Start starts a proxy before the server at addr, host:port, that may speak any protocol. The caller closes it. The
// error says that there is no port to listen on; a server that cannot be reached shows as connections that are closed
// at once.
func Start(addr string) (*Proxy, error) {
	return start(backend.Target{Network: "tcp", Addr: addr}, false)
}

// StartRedis starts a proxy before a Redis server, and reads what passes one command at a time, those of a pipeline or
// a transaction too. It does not understand connections that use MONITOR, CLIENT REPLY or replication. The errors are
// those of [Start], and one for a target with TLS, which no proxy can read.
func StartRedis(target backend.Target) (*Proxy, error) {
	if target.TLS != nil {
		return nil, fmt.Errorf("starting a proxy before %s: %w", target, errTLS)
	}
	return start(target, true)
}

var errTLS = errors.New("a proxy cannot read what is encrypted; use a server without TLS")

func start(target backend.Target, redis bool) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a proxy: %w", err)
	}
	p := &Proxy{
		target: target, addr: listener.Addr().String(), redis: redis, listener: listener,
		conns: map[*conn]bool{}, faults: [2]*Fault{{}, {}}, changed: make(chan struct{}),
	}
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where it listens, host:port.
func (p *Proxy) Addr() string { return p.addr }

// Target is how to reach the server through the proxy.
func (p *Proxy) Target() backend.Target {
	t := p.target
	t.Network, t.Addr = "tcp", p.addr
	return t
}

// Accepted is how many connections came so far, which is also the number of the last one.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close ends the proxy and all its connections, and returns when nothing of it runs any more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	var err error
	if !p.closed {
		p.closed, err = true, p.listener.Close()
	}
	p.cut()
	p.mu.Unlock()
	p.running.Wait()
	return err
}

// Cut closes all connections on both sides. What was on its way is lost. Further ones are forwarded.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// cut needs mu.
func (p *Proxy) cut() {
	for c := range p.conns {
		c.cut()
	}
}

// Disconnect closes all connections, and until Heal further ones as soon as anything is said on them.
func (p *Proxy) Disconnect() {
	p.setFaults(Fault{End: true}, Fault{End: true})
	p.Cut()
}

// Partition lets nothing pass in either direction from now on. Connections stay open, further ones are accepted and
// silent, and what either side sends or closes waits for Heal.
func (p *Proxy) Partition() { p.setFaults(Fault{Hold: true}, Fault{Hold: true}) }

// Heal ends what SetFault, Partition, Disconnect and DropMessages began. All that was held back is delivered, in order.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.commands.dropMessages = false
	p.mu.Unlock()
	p.setFaults(Fault{}, Fault{})
}

// SetFault puts a fault in the place of the one that the direction has. A zero Fault is none. When SetFault returns, no
// byte passes any more that the fault concerns.
func (p *Proxy) SetFault(d Direction, f Fault) { p.change(func() { p.setFault(d, f) }) }

func (p *Proxy) setFaults(up, down Fault) {
	p.change(func() {
		p.setFault(Up, up)
		p.setFault(Down, down)
	})
}

// setFault needs mu. A connection that has lost something must not go on afterwards.
func (p *Proxy) setFault(d Direction, f Fault) {
	if p.faults[d].Drop && !f.Drop {
		p.cut()
	}
	p.faults[d] = &f
}

// change makes a change of faults and returns when every write that may not have seen it is over.
func (p *Proxy) change(set func()) {
	p.mu.Lock()
	set()
	close(p.changed)
	p.changed = make(chan struct{})
	var streams []*stream
	for c := range p.conns {
		streams = append(streams, c.streams()...)
	}
	p.mu.Unlock()
	for _, s := range streams {
		s.settle()
	}
}

// fault is the fault of a direction, and what is closed when any fault changes.
func (p *Proxy) fault(d Direction) (*Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[d], p.changed
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptAgain)
			continue
		}
		c := p.add(client)
		p.running.Go(func() {
			c.run()
			p.mu.Lock()
			defer p.mu.Unlock()
			c.cut()
			delete(p.conns, c)
		})
	}
}

func (p *Proxy) add(client net.Conn) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	c := &conn{proxy: p, number: p.accepted, client: client, done: make(chan struct{})}
	p.conns[c] = true
	if p.closed { // since it came
		c.cut()
	}
	return c
}
