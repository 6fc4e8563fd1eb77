package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/market/backend"
)

const privateMasters = 5 // as in the description of Redlock

// Addresses say where the servers are that locks need besides the market's Redis.
type Addresses struct {
	Masters   []backend.Target // independent Redis masters
	ZooKeeper []string         // host:port
	Etcd      []string         // host:port
}

// Locks are the servers that some locks need. Its methods are not safe for concurrent use.
type Locks struct {
	Addresses // of what the locks need, and nothing else

	// What was started for the locks; nil where the user's own servers are used, or none are needed.
	PrivateMasters   Redises
	PrivateZooKeeper *Ensemble
	PrivateEtcd      *Ensemble
}

// ForLock returns servers for locks with these needs, which are values of lock.Need: the user's own where their
// addresses are given, else private ones that Close ends.
func ForLock(ctx context.Context, own Addresses, needs ...string) (*Locks, error) {
	l := &Locks{}
	for _, need := range needs {
		if err := l.start(ctx, own, need); err != nil {
			return nil, errors.Join(fmt.Errorf("servers for the lock %s: %w", need, err), l.Close())
		}
	}
	return l, nil
}

func (l *Locks) start(ctx context.Context, own Addresses, need string) (err error) {
	switch need {
	case "":
	case "redlock":
		l.Masters = own.Masters
		if len(own.Masters) > 0 {
			return nil
		}
		l.PrivateMasters, err = StartMasters(ctx, privateMasters)
		if err == nil {
			l.Masters = l.PrivateMasters.Targets()
		}
	case "zookeeper":
		l.ZooKeeper, l.PrivateZooKeeper, err = ensembleAt(ctx, own.ZooKeeper, StartZooKeeper)
	case "etcd":
		l.Etcd, l.PrivateEtcd, err = ensembleAt(ctx, own.Etcd, StartEtcd)
	default:
		err = errors.New("marketsim does not know how to start them")
	}
	return err
}

// ensembleAt returns the user's addresses, or else those of a server that it starts.
func ensembleAt(ctx context.Context, own []string, start func(context.Context, int) (*Ensemble, error)) (
	[]string, *Ensemble, error) {
	if len(own) > 0 {
		return slices.Clone(own), nil, nil
	}
	private, err := start(ctx, 1)
	if err != nil {
		return nil, nil, err
	}
	return private.Addrs(), private, nil
}

// Preflight asks each of the user's servers whether a lock can be kept there. Locks do without a minority: missing says
// which servers cannot be used, and why. An error says that too many cannot.
func (l *Locks) Preflight(ctx context.Context) (missing []string, err error) {
	member := func(addrs []string, ask func(context.Context, string) (status, error)) func(int) error {
		return func(i int) error {
			if _, err := ask(ctx, addrs[i]); err != nil {
				return fmt.Errorf("%s: %w", addrs[i], err)
			}
			return nil
		}
	}
	for _, g := range []struct {
		what    string
		private bool
		n       int
		try     func(i int) error
	}{
		{"redlock", l.PrivateMasters != nil, len(l.Masters), func(i int) error { return tryMaster(ctx, l.Masters[i]) }},
		{"zookeeper", l.PrivateZooKeeper != nil, len(l.ZooKeeper), member(l.ZooKeeper, askZooKeeper)},
		{"etcd", l.PrivateEtcd != nil, len(l.Etcd), member(l.Etcd, askEtcd)},
	} {
		if g.private {
			continue
		}
		failures := make([]error, g.n)
		_ = each(g.n, func(i int) error { failures[i] = g.try(i); return nil })
		failures = slices.DeleteFunc(failures, func(err error) bool { return err == nil })
		if n := len(failures); n > (g.n-1)/2 {
			return nil, fmt.Errorf("%s cannot work without %d of its %d servers: %w; repair them, or name others with --%[1]s",
				g.what, n, g.n, errors.Join(failures...))
		}
		for _, failure := range failures {
			missing = append(missing, fmt.Sprintf("%s works on without one of its %d servers: %v", g.what, g.n, failure))
		}
	}
	return missing, nil
}

// tryMaster connects to a master and checks that it takes writes.
func tryMaster(ctx context.Context, target backend.Target) error {
	err := backend.With(ctx, target, func(conn *backend.Conn) error { return backend.Preflight(ctx, conn) })
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}

// Close ends what was started for the locks.
func (l *Locks) Close() error {
	err := l.PrivateMasters.Close()
	for _, e := range []*Ensemble{l.PrivateZooKeeper, l.PrivateEtcd} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}
