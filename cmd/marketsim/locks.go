package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
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
	flags.StringSliceVar(&f.etcd, "etcd", nil,
		"`host:port`s of your etcd servers for the lock etcd (default a private one)")
}

// config checks the flags. It returns what the locks of the rows need.
func (f lockFlags) config(specs []rowSpec) (lockConfig, error) {
	masters, err := f.masters()
	if err != nil {
		return lockConfig{}, err
	}
	c := lockConfig{own: servers.Addresses{Masters: masters, ZooKeeper: f.zookeeper, Etcd: f.etcd}}
	for _, s := range specs {
		if kind, ok := s.spec.Lock(); ok && kind.Needs != lock.NeedsNothing && !slices.Contains(c.needs, kind.Needs) {
			c.needs = append(c.needs, kind.Needs)
		}
	}
	return c, nil
}

// masters parses --redlock.
func (f lockFlags) masters() ([]backend.Target, error) {
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
		return nil, usageError{
			fmt.Errorf("--redlock names %d masters: it takes an odd number of at least 3, for a majority", n),
		}
	}
	return targets, nil
}

// lockConfig says which servers the locks need, and where the user's own are.
type lockConfig struct {
	needs []lock.Need
	own   servers.Addresses
}

// start starts the servers that are needed, or takes the user's. A server that cannot be started is a mistake in the
// command line: the user asked for a lock that this machine cannot have.
func (c lockConfig) start(ctx context.Context) (*servers.Locks, error) {
	var needs []string
	for _, need := range c.needs {
		needs = append(needs, string(need))
	}
	locks, err := servers.ForLock(ctx, c.own, needs...)
	if errors.Is(err, backend.ErrUnavailable) {
		err = usageError{err}
	}
	return locks, err
}

// lockAddresses is where the locks of a row find their servers.
func lockAddresses(l *servers.Locks) lock.Servers {
	return lock.Servers{Masters: servers.Dialers(l.Masters), ZooKeeper: l.ZooKeeper, Etcd: l.Etcd}
}

// lockServers is how the manifest names the servers of the locks, secrets removed.
func lockServers(l *servers.Locks) result.LockServers {
	shown := result.LockServers{ZooKeeper: l.ZooKeeper, Etcd: l.Etcd}
	for _, t := range l.Masters {
		shown.Redlock = append(shown.Redlock, t.String())
	}
	if l.PrivateZooKeeper != nil {
		shown.ZooKeeperVersion = l.PrivateZooKeeper.Version()
	}
	if l.PrivateEtcd != nil {
		shown.EtcdVersion = l.PrivateEtcd.Version()
	}
	return shown
}
