package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	readyTimeout = 20 * time.Second // a disk may be busy when the server reads what it wrote
	readyPoll    = 5 * time.Millisecond
)

// Local starts a private redis-server or valkey-server of this machine: on a free port of 127.0.0.1, without
// persistence, in a temporary folder of its own and in a process group of its own, so that Ctrl-C ends the load
// but leaves the server for the audit. On Linux it dies with this process however that ends; elsewhere a killed
// marketsim leaves it running. The zero value is ready to use.
type Local struct {
	Program string // path of the server; empty means redis-server, else valkey-server, from PATH

	// Args are added to the command line, for example "--maxmemory", "10mb". --port and --requirepass are
	// understood and show in the Target. With Args of one's own the folder stays until Close, because the server
	// may then write to it (as a replica, or to an append-only file); without, it is removed at once where the
	// system allows that, so that even a SIGKILL leaves nothing behind.
	Args []string

	// TLS, if not nil, is how to connect to a server whose Args name its certificates; its only port is then a
	// TLS port.
	TLS *tls.Config
}

// Name returns [NameLocal].
func (l Local) Name() Name { return NameLocal }

// Start starts the server and returns when it answers, within 20 seconds. The error wraps [ErrUnavailable] when
// no server is installed, and holds the last lines of the server's log when it ended at once.
func (l Local) Start(ctx context.Context) (*Server, error) {
	program, err := l.find()
	if err != nil {
		return nil, err
	}
	if port := l.arg("--port"); port != "" {
		return l.startOn(ctx, program, port)
	}
	var s *Server
	err = OnFreePorts(ctx, 1, func(ports []string) (err error) {
		s, err = l.startOn(ctx, program, ports[0])
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (l Local) find() (string, error) {
	candidates := []string{"redis-server", "valkey-server"}
	if l.Program != "" {
		candidates = []string{l.Program}
	}
	for _, name := range candidates {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	if l.Program != "" {
		return "", fmt.Errorf("%s: %w", l.Program, ErrUnavailable)
	}
	return "", fmt.Errorf("no redis-server or valkey-server in PATH: %w", ErrUnavailable)
}

// arg returns the value of an option among Args, or "".
func (l Local) arg(name string) string {
	if i := slices.Index(l.Args, name); i >= 0 && i+1 < len(l.Args) {
		return l.Args[i+1]
	}
	return ""
}

func (l Local) startOn(ctx context.Context, program, port string) (*Server, error) {
	addr := net.JoinHostPort("127.0.0.1", port)
	target := Target{Network: "tcp", Addr: addr, Password: l.arg("--requirepass"), TLS: l.TLS}
	own := &ownProcess{program: program, args: l.commandLine(port), writes: len(l.Args) > 0}
	s := NewServer(NameLocal, target, "private "+program, own.close)
	s.own = own
	if err := own.start(ctx, s.ready); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// commandLine puts the caller's arguments last, where they win.
func (l Local) commandLine(port string) []string {
	args := []string{"--bind", "127.0.0.1", "--port", port, "--daemonize", "no", "--save", "", "--appendonly", "no"}
	if l.TLS != nil {
		args = append(args, "--port", "0", "--tls-port", port)
	}
	return append(args, l.Args...)
}

// ready reports whether our server, and not another one that took its port, answers.
func (s *Server) ready(ctx context.Context, p *Process) error {
	conn, err := s.Dial(ctx)
	if errors.Is(err, ErrAuth) {
		return nil // it answers; an ACL file keeps us out
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	fields, err := conn.InfoFields(ctx, "server")
	if _, denied := Denied(err); denied {
		return nil
	}
	if err == nil && fields["process_id"] != strconv.Itoa(p.PID()) {
		<-p.exited // it cannot bind, so it ends
		return p.ended()
	}
	return err
}

// ownProcess is the process of a server that [Local] started: another one after each restart.
type ownProcess struct {
	program string
	args    []string
	writes  bool // it may write to its folder, which then stays until close

	mu      sync.Mutex
	process *Process
	folder  string // empty while there is none
	closed  bool
}

// start starts the process and returns when it is ready.
func (o *ownProcess) start(ctx context.Context, ready func(context.Context, *Process) error) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrClosed
	}
	if o.folder == "" {
		if o.folder, err = os.MkdirTemp("", "marketsim-redis-"); err != nil {
			return fmt.Errorf("making the server's folder: %w", err)
		}
	}
	p, err := StartProcess(o.program, o.folder, o.args, nil)
	if err != nil {
		return err
	}
	o.process = p
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.Await(ctx, readyPoll, func() error { return ready(ctx, p) }); err != nil {
		return err
	}
	if !o.writes && os.RemoveAll(o.folder) == nil { // Windows keeps a folder in use, and close tries again
		o.folder = ""
	}
	return nil
}

func (o *ownProcess) current() *Process {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.process
}

func (o *ownProcess) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	var err error
	if o.process != nil {
		err = o.process.Close()
	}
	if o.folder != "" {
		err = errors.Join(err, os.RemoveAll(o.folder))
	}
	return err
}
