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
)

const portTries = 5

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

	// Dir, if not empty, is an existing folder of the caller's to run in, which is never removed: with Args such as
	// "--appendonly", "yes", "--appendfsync", "always" what a server wrote is there when it is started again.
	Dir string

	// TLS, if not nil, is how to connect to a server whose Args name its certificates; its only port is then a
	// TLS port.
	TLS *tls.Config
}

// Name returns [KindLocal].
func (l Local) Name() Kind { return KindLocal }

// Start starts the server and returns when it answers, within 5 seconds. The error wraps [ErrUnavailable] when
// no server is installed, and holds the last lines of the server's log when it ended at once.
func (l Local) Start(ctx context.Context) (*Server, error) {
	program, err := l.find()
	if err != nil {
		return nil, err
	}
	// Another process may take the free port before the server does.
	for try := 1; ; try++ {
		server, err := l.startOn(ctx, program)
		if err == nil || !errors.Is(err, errPortTaken) || try == portTries || l.arg("--port") != "" {
			return server, err
		}
	}
}

var errPortTaken = errors.New("the port was taken by another process")

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

func (l Local) startOn(ctx context.Context, program string) (*Server, error) {
	port := l.arg("--port")
	if port == "" {
		free, err := freePort()
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		port = free
	}
	folder, remove, err := l.folder()
	if err != nil {
		return nil, fmt.Errorf("making the server's folder: %w", err)
	}
	p, err := startProcess(program, folder, l.commandLine(port))
	if err != nil {
		_ = remove()
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	target := Target{Network: "tcp", Addr: net.JoinHostPort("127.0.0.1", port), Password: l.arg("--requirepass"), TLS: l.TLS}
	server := NewServer(KindLocal, target, "private "+program, func() error {
		return errors.Join(p.close(), remove())
	})
	server.process = p
	if err := server.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	if len(l.Args) == 0 {
		_ = remove() // best effort: Windows keeps a folder in use, and Close tries again
	}
	return server, nil
}

// folder returns where the server is to run, and how to remove that.
func (l Local) folder() (path string, remove func() error, err error) {
	if l.Dir != "" {
		return l.Dir, func() error { return nil }, nil
	}
	path, err = os.MkdirTemp("", "marketsim-redis-")
	return path, func() error { return os.RemoveAll(path) }, err
}

// Restart kills a server that l started, if it still runs, and starts one at the same address. With a Dir and an
// append-only file it finds what the first one had written; else it comes back empty. The first is closed in any case.
func (l Local) Restart(ctx context.Context, s *Server) (*Server, error) {
	if err := errors.Join(s.Kill(), s.Close()); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(s.Target.Addr)
	if err != nil {
		return nil, err
	}
	again := l
	again.Args = append(slices.Clone(l.Args), "--port", port)
	if l.TLS != nil {
		again.Args = append(again.Args, "--port", "0", "--tls-port", port)
	}
	return again.Start(ctx)
}

// commandLine puts the caller's arguments last, where they win.
func (l Local) commandLine(port string) []string {
	args := []string{"--bind", "127.0.0.1", "--port", port, "--daemonize", "no", "--save", "", "--appendonly", "no"}
	if l.TLS != nil {
		args = append(args, "--port", "0", "--tls-port", port)
	}
	return append(args, l.Args...)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
