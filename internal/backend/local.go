package backend

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
)

// Local starts a private redis-server or valkey-server of this machine: on a free port
// of 127.0.0.1, without persistence, as a [process.Process], so that Ctrl-C ends the load but
// leaves the server for the audit.
type Local struct {
	Program string // path of the server; empty means redis-server, else valkey-server, from PATH
	// Password is what the server asks of clients, and gives to its master. Empty means a
	// random one, which the Target has: other users of this machine can reach the port.
	Password string
	// Are added to the command line, where the last wins; not --port and --requirepass.
	Args []string
}

// Name returns [OriginLocal].
func (l Local) Name() Origin { return OriginLocal }

// Start starts the server and returns when it answers, within a minute. The error holds
// the end of its log if it ends.
func (l Local) Start(ctx context.Context) (s *Server, err error) {
	programs := []string{"redis-server", "valkey-server"}
	if l.Program != "" {
		programs = []string{l.Program}
	}
	program, err := process.Find("redis-server", programs...)
	if err != nil {
		return nil, err
	}

	err = process.OnFreePorts(ctx, 1, func(ports []string) (err error) {
		s, err = l.startOn(ctx, program, ports[0])
		return err
	})
	return s, err
}

func (l Local) startOn(ctx context.Context, program, port string) (*Server, error) {
	password := cmp.Or(l.Password, rand.Text())
	// By standard input, which "-" has the server read: arguments are shown to all users.
	p := &process.Process{
		Name:    "redis",
		Program: program,
		Input:   fmt.Sprintf("requirepass %q\nmasterauth %[1]q\n", password),
	}
	p.Args = []string{"-", "--bind", "127.0.0.1", "--port", port, "--daemonize", "no", "--save", "", "--appendonly", "no"}
	p.Args = append(p.Args, l.Args...)

	target := redisconn.Target{Network: "tcp", Addr: net.JoinHostPort("127.0.0.1", port), Password: password}
	s := NewServer(OriginLocal, target, "private "+program, p.Close)
	s.Process, p.Ready = p, s.ready
	if err := p.Start(ctx); err != nil { // which stays wrapped: OnFreePorts tries again by it
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// ready reports whether our server, and not another one that took its port, answers.
func (s *Server) ready(ctx context.Context, pid int) error {
	err := redisconn.With(ctx, s.Target, func(conn *redisconn.Conn) error {
		fields, err := conn.InfoFields(ctx, "server")
		// An ACL in Args may forbid INFO: who takes our password then counts as ours.
		if _, denied := redisconn.Denied(err); denied {
			return nil
		}
		if err == nil && fields["process_id"] != strconv.Itoa(pid) {
			return fmt.Errorf("another server answers at %s", s.Target.Addr)
		}
		return err
	})

	if errors.Is(err, redisconn.ErrAuth) { // ours cannot bind, and ends
		return fmt.Errorf("another server answers at %s: %w", s.Target.Addr, err)
	}
	return err
}
