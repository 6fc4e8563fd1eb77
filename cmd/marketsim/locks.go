package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/etcd"
	"github.com/marketsim/marketsim/market/backend/masters"
	"github.com/marketsim/marketsim/market/backend/zookeeper"
	"github.com/marketsim/marketsim/strategies/lock"
)

const (
	privateMasters   = 5 // as in the description of Redlock
	privateZooKeeper = 1
	privateEtcd      = 1
)

// lockFlags say where the servers are that some locks need besides the market's Redis.
type lockFlags struct {
	redlock, zookeeper, etcd []string
}

func (f *lockFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.redlock, "redlock", nil,
		"`URLs` of your independent masters for the lock redlock (default five private ones)")
	flags.StringSliceVar(&f.zookeeper, "zookeeper", nil,
		"`host:port`s of your ZooKeeper servers for the lock zookeeper (default a private one)")
	flags.StringSliceVar(&f.etcd, "etcd", nil, "`host:port`s of your etcd servers for the lock etcd (default a private one)")
}

// lockServers are the servers that the locks of a run need.
type lockServers struct {
	lock.Servers
	shown   bench.LockServers // for the manifest, secrets removed
	private []io.Closer
	keeper  *zookeeper.Ensemble // a private ZooKeeper
}

// Close ends those that were started for this run.
func (s *lockServers) Close() error {
	var errs []error
	for _, p := range s.private {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// needed are the servers that the traders' locks need.
func needed(traders []trader) []lock.Need {
	var needs []lock.Need
	for _, t := range traders {
		if kind, ok := t.spec.Lock(); ok && kind.Needs != lock.NeedsNothing && !slices.Contains(needs, kind.Needs) {
			needs = append(needs, kind.Needs)
		}
	}
	return needs
}

// start names or starts the servers that are needed. A server that cannot be started is a mistake in the command line:
// the user asked for a lock that this machine cannot have.
func (f *lockFlags) start(ctx context.Context, needs []lock.Need) (*lockServers, error) {
	targets, err := f.masters()
	if err != nil {
		return nil, err
	}
	s := &lockServers{}
	for _, need := range needs {
		if err := f.startOne(ctx, s, need, targets); err != nil {
			err = errors.Join(fmt.Errorf("servers for the lock %s: %w", need, err), s.Close())
			if errors.Is(err, backend.ErrUnavailable) {
				err = usageError{err}
			}
			return nil, err
		}
	}
	return s, nil
}

func (f *lockFlags) startOne(ctx context.Context, s *lockServers, need lock.Need, targets []backend.Target) error {
	switch need {
	case lock.NeedsMasters:
		return s.useMasters(ctx, targets)
	case lock.NeedsZooKeeper:
		return s.useZooKeeper(ctx, f.zookeeper)
	case lock.NeedsEtcd:
		return s.useEtcd(ctx, f.etcd)
	}
	return fmt.Errorf("unknown kind of server %q", need)
}

// masters parses --redlock.
func (f *lockFlags) masters() ([]backend.Target, error) {
	var targets []backend.Target
	for _, url := range f.redlock {
		t, err := backend.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("--redlock: %w", err)
		}
		targets = append(targets, t)
	}
	for i, t := range targets {
		if slices.ContainsFunc(targets[:i], func(other backend.Target) bool { return other.Addr == t.Addr }) {
			return nil, usageError{fmt.Errorf("--redlock names %s twice: its masters must be independent", t.Addr)}
		}
	}
	if n := len(targets); n > 0 && (n < 3 || n%2 == 0) {
		return nil, usageError{fmt.Errorf("--redlock names %d masters: it takes an odd number of at least 3, for a majority", n)}
	}
	return targets, nil
}

func (s *lockServers) useMasters(ctx context.Context, targets []backend.Target) error {
	if len(targets) == 0 {
		private, err := masters.Start(ctx, privateMasters)
		if err != nil {
			return err
		}
		s.private = append(s.private, private)
		targets = private.Targets()
	}
	s.Masters = masters.Dialers(targets)
	for _, t := range targets {
		s.shown.Redlock = append(s.shown.Redlock, t.String())
	}
	return nil
}

func (s *lockServers) useZooKeeper(ctx context.Context, given []string) error {
	if len(given) == 0 {
		private, err := zookeeper.Start(ctx, privateZooKeeper)
		if err != nil {
			return err
		}
		s.private = append(s.private, private)
		s.keeper, given = private, private.Addrs()
	}
	s.ZooKeeper, s.shown.ZooKeeper = given, given
	return nil
}

func (s *lockServers) useEtcd(ctx context.Context, given []string) error {
	if len(given) == 0 {
		private, err := etcd.Start(ctx, privateEtcd)
		if err != nil {
			return err
		}
		s.private = append(s.private, private)
		given = private.Addrs()
	}
	s.Etcd, s.shown.Etcd = given, given
	return nil
}
