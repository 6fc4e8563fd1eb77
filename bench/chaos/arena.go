package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	settleTimeout = 30 * time.Second
	settlePoll    = 5 * time.Millisecond
)

// An Arena is a private redis-server whose data outlives its process, and the lines by which workers reach it. The server
// writes every change to disk before it answers (appendonly yes, appendfsync always), so that what a crash shows is the
// fault of a strategy, and not of a server that forgot what it had promised.
type Arena struct {
	folder string // of the server's data
	lines  []*line
	dials  atomic.Int64
	close  func() error

	mu     sync.Mutex
	server *backend.Server // another one after each restart, at the same address
	closed bool
}

// Start starts the server and its lines. The error wraps backend.ErrUnavailable when no redis-server is installed.
func Start(ctx context.Context) (*Arena, error) {
	folder, err := os.MkdirTemp("", "marketsim-chaos-")
	if err != nil {
		return nil, fmt.Errorf("making the folder of the server's data: %w", err)
	}
	a := &Arena{folder: folder}
	a.close = sync.OnceValue(a.end)
	if a.server, err = a.launch(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	for range lines {
		l, err := openLine(a.server.Target)
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		a.lines = append(a.lines, l)
	}
	return a, nil
}

// launch starts the server's process on its data.
func (a *Arena) launch(ctx context.Context, args ...string) (*backend.Server, error) {
	args = append(args, "--dir", a.folder, "--appendonly", "yes", "--appendfsync", "always")
	return backend.Local{Args: args}.Start(ctx)
}

// Server is the server as it runs now.
func (a *Arena) Server() *backend.Server {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.server
}

// Direct connects to the server past the lines, for audits.
func (a *Arena) Direct(ctx context.Context) (*backend.Conn, error) { return a.Server().Dial(ctx) }

// Dial connects a worker by one line after the other.
func (a *Arena) Dial(ctx context.Context) (*backend.Conn, error) {
	i := int(a.dials.Add(1)-1) % len(a.lines)
	return backend.Dial(ctx, a.lines[i].target)
}

// Settle returns when nothing that workers have sent can still arrive: it closes their connections and waits until the
// server has read them to the end. It is for workers at rest, on a server that is well.
func (a *Arena) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for _, l := range a.lines {
		l.stop()
	}
	if err := a.awaitSilence(ctx); err != nil {
		return fmt.Errorf("waiting until the server has read what clients had sent: %w", err)
	}
	for _, l := range a.lines {
		if err := l.start(); err != nil {
			return err
		}
	}
	return nil
}

// awaitSilence waits until the server knows no client but this one.
func (a *Arena) awaitSilence(ctx context.Context) error {
	conn, err := a.Direct(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		clients, err := conn.ClientList(ctx).Result()
		if err != nil {
			return err
		}
		if strings.Count(strings.TrimSpace(clients), "\n") == 0 {
			return nil
		}
		select {
		case <-time.After(settlePoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// crash kills the server.
func (a *Arena) crash() error {
	s := a.Server()
	return errors.Join(s.Kill(), s.Close())
}

// restart starts the server again, on its data and at its address.
func (a *Arena) restart(ctx context.Context) error {
	_, port, err := net.SplitHostPort(a.Server().Target.Addr)
	if err != nil {
		return err
	}
	s, err := a.launch(ctx, "--port", port)
	if err != nil {
		return fmt.Errorf("starting the server again: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed { // the user left meanwhile
		return errors.Join(errClosed, s.Close())
	}
	a.server = s
	return nil
}

var errClosed = errors.New("the arena is closed")

// Close ends the lines and the server, and removes its data.
func (a *Arena) Close() error { return a.close() }

func (a *Arena) end() error {
	for _, l := range a.lines {
		l.stop()
	}
	a.mu.Lock()
	a.closed = true
	s := a.server
	a.mu.Unlock()
	var err error
	if s != nil {
		err = s.Close()
	}
	return errors.Join(err, os.RemoveAll(a.folder))
}
