// Package wire cuts a connection to Redis at a chosen command, for tests of what a client makes of an outcome that it
// was not told.
package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/market/backend"
)

// A Proxy stands before a server and passes everything on until it is told to cut.
type Proxy struct {
	server   *backend.Server
	target   backend.Target
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	cut   cut
	conns map[net.Conn]bool
}

// cut is what happens at the next command with this name.
type cut struct {
	command string // in lower case; empty: nothing
	forward bool   // whether the server gets the command
}

// Start starts a proxy before a server on TCP for the length of the test.
func Start(t testing.TB, s *backend.Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: s.Target, listener: l, conns: map[net.Conn]bool{}}
	target := s.Target
	target.Addr = l.Addr().String()
	p.server = backend.NewServer(s.Kind, target, "proxy of "+s.Detail, nil)
	p.running.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

// Server is the server as seen through the proxy.
func (p *Proxy) Server() *backend.Server { return p.server }

// LoseReply makes the next command called name be executed and its connection then be cut, so that its reply, and
// replies before it on their way, are lost. When the client notices, the command has been executed.
func (p *Proxy) LoseReply(name string) { p.arm(cut{command: strings.ToLower(name), forward: true}) }

// LoseCommand makes the connection be cut before the next command called name reaches the server.
func (p *Proxy) LoseCommand(name string) { p.arm(cut{command: strings.ToLower(name)}) }

func (p *Proxy) arm(c cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = c
}

// fires reports whether the connection is to be cut at this command, at most once.
func (p *Proxy) fires(command string) (c cut, fires bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut.command == "" || p.cut.command != strings.ToLower(command) {
		return cut{}, false
	}
	c, p.cut = p.cut, cut{}
	return c, true
}

func (p *Proxy) stop() {
	p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(p.target.Network, p.target.Addr)
		if err != nil {
			client.Close()
			continue
		}
		p.running.Go(func() { p.serve(client, server) })
	}
}

// serve passes one connection on until either side ends it or it is cut.
func (p *Proxy) serve(client, server net.Conn) {
	p.track(client, true)
	p.track(server, true)
	defer p.track(client, false)
	defer p.track(server, false)
	muted, replied := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(replied)
		reply(client, server, muted)
	}()
	if p.request(client, server, muted) {
		// The server reads and executes all it was sent before it sees the end, and then hangs up.
		server.(interface{ CloseWrite() error }).CloseWrite()
		<-replied
	}
	server.Close()
	client.Close()
	<-replied
}

func (p *Proxy) track(c net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
	}
}

// request passes commands on. It returns true when the last one is to be executed without a reply.
func (p *Proxy) request(client io.Reader, server io.Writer, muted chan<- struct{}) bool {
	in := bufio.NewReader(client)
	for {
		name, raw, err := readCommand(in)
		if err != nil {
			return false
		}
		c, fires := p.fires(name)
		if fires {
			close(muted)
		}
		if !fires || c.forward {
			if _, err := server.Write(raw); err != nil {
				return false
			}
		}
		if fires {
			return c.forward
		}
	}
}

// reply passes replies on until it is muted, and then drops them.
func reply(client io.WriteCloser, server io.Reader, muted <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := server.Read(buffer)
		select {
		case <-muted:
		default:
			client.Write(buffer[:n])
		}
		if err != nil {
			select {
			case <-muted: // serve hangs up when it knows that everything was executed
			default:
				client.Close()
			}
			return
		}
	}
}

var errProtocol = errors.New("not a command in the Redis protocol")

// readCommand reads one command, an array of bulk strings, and returns its name and its bytes.
func readCommand(in *bufio.Reader) (name string, raw []byte, err error) {
	count, raw, err := readLength(in, '*', nil)
	for i := 0; err == nil && i < count; i++ {
		var length int
		if length, raw, err = readLength(in, '$', raw); err != nil {
			break
		}
		text := make([]byte, length+2)
		if _, err = io.ReadFull(in, text); i == 0 {
			name = string(text[:length])
		}
		raw = append(raw, text...)
	}
	return name, raw, err
}

// readLength reads a line such as "*3" and appends it to raw.
func readLength(in *bufio.Reader, kind byte, raw []byte) (int, []byte, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, raw, err
	}
	if line[0] != kind {
		return 0, raw, errProtocol
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	return n, append(raw, line...), err
}
