// Package servers starts groups of private servers, for locks that need more than the
// market's Redis and for scenarios that harm servers: independent masters
// ([StartMasters]), a Redis Cluster ([StartCluster]), and ensembles of ZooKeeper or etcd
// ([StartZooKeeper], [StartEtcd]). [ForLock] gives a lock what it needs. All are
// processes on free ports of 127.0.0.1, ended by Close: see [process.Process]. A Start
// function returns when its servers serve. Its error wraps [process.ErrUnavailable] and
// names the package to install when a program is missing.
package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
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

// Redises are several private redis-servers. They are not safe for concurrent use.
type Redises []*backend.Server

// StartMasters starts n independent Redis masters, on which Redlock runs: none is a
// replica of another and none knows of the others. A master that is started again comes
// back empty, because nothing is kept on disk.
func StartMasters(ctx context.Context, n int) (Redises, error) {
	started, err := startRedises(ctx, n, backend.Local{})
	if err != nil {
		err = fmt.Errorf("starting %d masters: %w", n, redisconn.OfContext(ctx, err))
		return nil, errors.Join(err, started.Close())
	}
	return started, nil
}

// startRedises starts n servers at the same time. With an error it returns those
// that did start, to be closed.
func startRedises(ctx context.Context, n int, local backend.Local) (_ Redises, err error) {
	local.Program, err = process.Find("redis-server", "redis-server", "valkey-server")
	if err != nil { // which each of them would say
		return nil, err
	}
	started := make(Redises, n)
	err = each(n, func(i int) (err error) {
		started[i], err = local.Start(ctx)
		return err
	})
	return slices.DeleteFunc(started, func(s *backend.Server) bool {
		return s == nil
	}), err
}

// Close ends all servers.
func (r Redises) Close() error {
	return each(len(r), func(i int) error {
		return r[i].Close()
	})
}

// Targets says how to reach each, also those that were killed.
func (r Redises) Targets() []redisconn.Target {
	return mapped(r, func(s *backend.Server) redisconn.Target {
		return s.Target
	})
}

// Addrs are the addresses of the servers, host:port, also of those that were killed.
func (r Redises) Addrs() []string {
	return mapped(r, func(s *backend.Server) string {
		return s.Target.Addr
	})
}

// mapped has what f makes of each.
func mapped[T, V any](all []T, f func(T) V) []V {
	values := make([]V, len(all))
	for i, one := range all {
		values[i] = f(one)
	}
	return values
}

// Dialers connect to each of several masters.
func Dialers(targets []redisconn.Target) []redisconn.Dialer { return mapped(targets, redisconn.To) }

const privateMasters = 5 // as in the description of Redlock

// Addresses say where the servers are that locks need besides the market's Redis.
type Addresses struct {
	Masters   []redisconn.Target // independent Redis masters
	ZooKeeper []string           // host:port
	Etcd      []string           // host:port
}

// Locks are the servers that some locks need. Its methods are not safe for concurrent use.
type Locks struct {
	Addresses // of what the locks need, and nothing else

	// What was started for the locks; nil if the user's own servers are used,
	// or none are needed.
	PrivateMasters   Redises
	PrivateZooKeeper *Ensemble
	PrivateEtcd      *Ensemble
}

// ForLock returns servers for locks with these needs, values of lock.Need: the
// user's own, or else private ones.
func ForLock(ctx context.Context, own Addresses, needs ...string) (*Locks, error) {
	l := &Locks{}
	for _, need := range needs {
		if err := l.start(ctx, own, need); err != nil {
			return nil, errors.Join(fmt.Errorf("servers for the lock %s: %w", need, err), l.Close())
		}
	}
	return l, nil
}

// start starts what a need asks for, or takes the user's own. Each need comes once, as ForLock's
// callers see to: servers that were started twice would not all be ended by Close.
func (l *Locks) start(ctx context.Context, own Addresses, need string) (err error) {
	switch need {
	case "":

	case "redlock":
		l.Masters = own.Masters
		if len(own.Masters) == 0 {
			l.PrivateMasters, err = StartMasters(ctx, privateMasters)
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

// Preflight asks each of the user's servers whether a lock can be kept there. Locks do
// without a minority: missing says which servers cannot be used, and why. An error
// says that too many cannot be.
func (l *Locks) Preflight(ctx context.Context) (missing []string, err error) {
	for _, g := range l.usersOwn() {
		failures := make([]error, g.servers)
		_ = each(g.servers, func(i int) error {
			failures[i] = g.try(ctx, i)
			return nil
		})

		failures = slices.DeleteFunc(failures, func(err error) bool {
			return err == nil
		})
		if n := len(failures); n > (g.servers-1)/2 {
			const refused = "%s cannot work without %d of its %d servers: %w; " +
				"repair them, or name others with --%[1]s"
			return nil, fmt.Errorf(refused, g.name, n, g.servers, errors.Join(failures...))
		}
		for _, failure := range failures {
			const warning = "%s works on without one of its %d servers: %v"
			missing = append(missing, fmt.Sprintf(warning, g.name, g.servers, failure))
		}
	}
	return missing, nil
}

// A group is the servers of one kind that locks need.
type group struct {
	name    string // of the flag that names them
	servers int
	try     func(ctx context.Context, i int) error // whether a lock can be kept on server i
}

// usersOwn are the groups that were not started for the locks. One that no lock needs has
// no servers, and Preflight passes it.
func (l *Locks) usersOwn() (groups []group) {
	if l.PrivateMasters == nil {
		groups = append(groups, group{"redlock", len(l.Masters), func(ctx context.Context, i int) error {
			return tryMaster(ctx, l.Masters[i])
		}})
	}

	if l.PrivateZooKeeper == nil {
		groups = append(groups, group{"zookeeper", len(l.ZooKeeper), func(ctx context.Context, i int) error {
			return tryMember(ctx, askZooKeeper, l.ZooKeeper[i])
		}})
	}

	if l.PrivateEtcd == nil {
		groups = append(groups, group{"etcd", len(l.Etcd), func(ctx context.Context, i int) error {
			return tryMember(ctx, askEtcd, l.Etcd[i])
		}})
	}
	return groups
}

func tryMember(
	ctx context.Context, ask func(context.Context, string) (status, error), addr string) error {

	if _, err := ask(ctx, addr); err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	return nil
}

func tryMaster(ctx context.Context, target redisconn.Target) error {
	err := redisconn.With(ctx, target, func(conn *redisconn.Conn) error {
		return backend.Preflight(ctx, conn)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}

// Close ends what was started for the locks.
func (l *Locks) Close() error {
	return errors.Join(l.PrivateMasters.Close(), l.PrivateZooKeeper.Close(), l.PrivateEtcd.Close())
}
