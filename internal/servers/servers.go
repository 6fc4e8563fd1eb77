// Package servers starts groups of private servers, for locks that need more than the market's Redis and for
// scenarios that harm servers: independent masters ([StartMasters]), a Redis Cluster ([StartCluster]), and ensembles of
// ZooKeeper or etcd ([StartZooKeeper], [StartEtcd]). [ForLock] gives a lock what it needs.
//
// All are processes of this machine on free ports of 127.0.0.1, each in a temporary folder and a process group of its
// own, ended by Close; on Linux they end with this process however that ends. A Start function returns when its
// servers serve. Its error wraps [backend.ErrUnavailable] and names the package to install when a program is missing.
package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	startTimeout = time.Minute // a busy machine is slow
	pollEvery    = 10 * time.Millisecond
)

// each calls do with 0 to n-1, all at the same time, and joins the errors.
func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { errs[i] = do(i) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// find finds the first of several programs in PATH; pack is the Debian package that installs one.
func find(pack string, programs ...string) (string, error) {
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in PATH (apt-get install %s): %w", strings.Join(programs, " or "), pack,
		backend.ErrUnavailable)
}

// redises are private redis-servers; nil stands for one that did not start.
type redises []*backend.Server

// startRedises starts n servers at the same time. They are returned also with an error, to be closed.
func startRedises(ctx context.Context, n int, start func(context.Context) (*backend.Server, error)) (redises, error) {
	if _, err := find("redis-server", "redis-server", "valkey-server"); err != nil {
		return nil, err
	}
	started := make(redises, n)
	return started, each(n, func(i int) (err error) {
		started[i], err = start(ctx)
		return err
	})
}

// Close ends all servers.
func (r redises) Close() error {
	return each(len(r), func(i int) error {
		if r[i] == nil {
			return nil
		}
		return r[i].Close()
	})
}

// with calls do with a connection to server i.
func (r redises) with(ctx context.Context, i int, do func(*backend.Conn) error) error {
	conn, err := r[i].Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(conn)
}

// Kill ends server i as a crash would.
func (r redises) Kill(i int) error { return r[i].Kill() }

// Restart kills server i if it runs and starts it again at the same address.
func (r redises) Restart(ctx context.Context, i int) error { return r[i].Restart(ctx) }

// Pause stops server i where it is, until Resume, with the errors of [backend.Server.Pause].
func (r redises) Pause(i int) error { return r[i].Pause() }

// Resume lets server i go on.
func (r redises) Resume(i int) error { return r[i].Resume() }

// Addrs are the addresses of the servers, host:port, also of those that were killed.
func (r redises) Addrs() []string {
	addrs := make([]string, len(r))
	for i, s := range r {
		addrs[i] = s.Target.Addr
	}
	return addrs
}

// A member is a server that is not a plain Redis. Its folder outlives its process, so that a server that is started
// again finds its data.
type member struct {
	program string
	args    []string
	env     []string // in place of this process's environment; nil means that
	folder  string
	addr    string // for clients, host:port
	process *backend.Process
}

// newMember makes the member's folder.
func newMember(program, name, addr string) (*member, error) {
	folder, err := os.MkdirTemp("", "marketsim-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("making a server's folder: %w", err)
	}
	return &member{program: program, folder: folder, addr: addr}, nil
}

// start starts the process and returns when ready returns nil.
func (m *member) start(ctx context.Context, ready func() error) (err error) {
	m.process, err = backend.StartProcess(m.program, m.folder, m.args, func(cmd *exec.Cmd) { cmd.Env = m.env })
	if err != nil {
		return err
	}
	return m.process.Await(ctx, pollEvery, ready)
}

func (m *member) kill() error {
	if m.process == nil {
		return nil
	}
	return m.process.Kill()
}

func (m *member) close() error {
	var err error
	if m.process != nil {
		err = m.process.Close()
	}
	return errors.Join(err, os.RemoveAll(m.folder))
}
