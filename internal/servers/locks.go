package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

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
	PrivateMasters   *Masters
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
		if l.Masters = own.Masters; len(own.Masters) > 0 {
			return nil
		}
		if l.PrivateMasters, err = StartMasters(ctx, privateMasters); err == nil {
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

// Preflight asks each of the user's servers whether a lock can be kept there, in a key that nobody uses. Locks do
// without a minority: missing says which servers cannot be used, and why. An error says that too many cannot.
func (l *Locks) Preflight(ctx context.Context, key string) (missing []string, err error) {
	type group struct {
		what string
		n    int
		ask  func(i int) error
	}
	var groups []group
	if l.PrivateMasters == nil {
		groups = append(groups, group{"redlock", len(l.Masters), func(i int) error {
			return tryMaster(ctx, l.Masters[i], key)
		}})
	}
	for _, e := range []struct {
		what    string
		private *Ensemble
		addrs   []string
		ask     func(context.Context, string) (status, error)
	}{{"zookeeper", l.PrivateZooKeeper, l.ZooKeeper, askZooKeeper}, {"etcd", l.PrivateEtcd, l.Etcd, askEtcd}} {
		if e.private == nil {
			groups = append(groups, group{e.what, len(e.addrs), func(i int) error {
				_, err := e.ask(ctx, e.addrs[i])
				if err != nil {
					err = fmt.Errorf("%s: %w", e.addrs[i], err)
				}
				return err
			}})
		}
	}
	for _, g := range groups {
		failures := make([]error, g.n)
		_ = each(g.n, func(i int) error { failures[i] = g.ask(i); return nil })
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

// tryMaster does on one master what Redlock will do: take a key, renew it and delete it.
func tryMaster(ctx context.Context, target backend.Target, key string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", target, backend.Explain(err))
		}
	}()
	conn, err := backend.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := backend.Preflight(ctx, conn); err != nil {
		return err
	}
	if err := conn.SetNX(ctx, key, "preflight", 10*time.Second).Err(); err != nil {
		return err
	}
	return giveBack.Run(ctx, conn, []string{key}, "preflight", 1000).Err()
}

// giveBack uses the commands of Redlock's scripts.
var giveBack = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) then
	return redis.call('DEL', KEYS[1])
end
return 0`)

// Close ends what was started for the locks.
func (l *Locks) Close() error {
	var errs []error
	if l.PrivateMasters != nil {
		errs = append(errs, l.PrivateMasters.Close())
	}
	for _, e := range []*Ensemble{l.PrivateZooKeeper, l.PrivateEtcd} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}
