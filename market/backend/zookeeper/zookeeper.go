// Package zookeeper starts a private ZooKeeper: one standalone server, or an ensemble of several.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	startTries   = 3
	startTimeout = 30 * time.Second
	pollEvery    = 10 * time.Millisecond
	jar          = "/usr/share/java/zookeeper.jar"
	logger       = "/usr/share/java/slf4j-simple.jar" // comes with it
	portsEach    = 3                                  // for clients, for the quorum and for elections
)

// Ensemble is one or more ZooKeeper servers of this machine, ended by Close.
type Ensemble struct{ servers []*server }

// Start starts an ensemble of n servers, or a standalone server if n is 1, and returns when each serves. The error
// wraps [backend.ErrUnavailable] when ZooKeeper or Java is not installed, and says how to install it.
//
// The servers write to disk as they would in earnest: each change is synced to the transaction log before it is
// answered.
func Start(ctx context.Context, n int) (*Ensemble, error) {
	java, err := find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// Another process may take one of the free ports before a server does.
	for try := 1; ; try++ {
		e, err := startOnce(ctx, java, n)
		if err == nil || !errors.Is(err, errEnded) || try == startTries {
			return e, err
		}
	}
}

// find finds Java and sees whether ZooKeeper is there.
func find() (string, error) {
	const install = "apt-get install --no-install-recommends zookeeper installs it"
	if _, err := os.Stat(jar); err != nil {
		return "", fmt.Errorf("no ZooKeeper in %s (%s): %w", jar, install, backend.ErrUnavailable)
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("no java in PATH for ZooKeeper (%s): %w", install, backend.ErrUnavailable)
	}
	return java, nil
}

func startOnce(ctx context.Context, java string, n int) (*Ensemble, error) {
	ports, err := backend.FreePorts(ctx, n*portsEach)
	if err != nil {
		return nil, err
	}
	e := &Ensemble{}
	for i := range n {
		s, err := startServer(java, i, ports)
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		e.servers = append(e.servers, s)
	}
	for _, s := range e.servers {
		if err := s.awaitReady(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// startServer starts the i-th server of those that have the ports.
func startServer(java string, i int, ports []string) (*server, error) {
	folder, err := os.MkdirTemp("", "marketsim-zookeeper-")
	if err != nil {
		return nil, fmt.Errorf("making the folder of a ZooKeeper server: %w", err)
	}
	s := &server{java: java, folder: folder, addr: net.JoinHostPort("127.0.0.1", ports[i*portsEach])}
	err = s.configure(i, ports)
	if err == nil {
		err = s.start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting ZooKeeper server %d: %w", i+1, err), os.RemoveAll(folder))
	}
	return s, nil
}

// Addrs are the addresses for clients, host:port, also of servers that were killed.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.servers))
	for i, s := range e.servers {
		addrs[i] = s.addr
	}
	return addrs
}

// Leader returns which server leads; a standalone server leads itself.
func (e *Ensemble) Leader(ctx context.Context) (int, error) {
	for i, s := range e.servers {
		if mode, err := s.mode(ctx); err == nil && (mode == "leader" || mode == "standalone") {
			return i, nil
		}
	}
	return 0, errors.New("no ZooKeeper server leads")
}

// PID returns the process id of server i.
func (e *Ensemble) PID(i int) int { return e.servers[i].child.PID() }

// Kill ends server i as a crash would.
func (e *Ensemble) Kill(i int) error { return e.servers[i].child.Kill() }

// Restart kills server i if it runs and starts it again, at the same address and with what it has on disk. It returns when
// the server serves.
func (e *Ensemble) Restart(ctx context.Context, i int) error {
	s := e.servers[i]
	err := errors.Join(s.child.Kill(), s.child.Close())
	if err == nil {
		err = s.start()
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		err = s.awaitReady(ctx)
	}
	if err != nil {
		return fmt.Errorf("starting ZooKeeper server %d again: %w", i+1, err)
	}
	return nil
}

// Close ends all servers and removes their folders.
func (e *Ensemble) Close() error {
	errs := make([]error, len(e.servers))
	var closing sync.WaitGroup
	for i, s := range e.servers {
		closing.Go(func() { errs[i] = errors.Join(s.child.Close(), os.RemoveAll(s.folder)) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// classPath is the jar, whose manifest names what it needs, with something that writes its log.
func classPath() string { return strings.Join([]string{jar, logger}, string(filepath.ListSeparator)) }
