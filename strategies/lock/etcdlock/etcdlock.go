// Package etcdlock is the lock of etcd's own client library. It is apart from package lock because of what it imports.
package etcdlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrUnreachable is returned, wrapped, by Kind.New when no etcd server answered in time.
var ErrUnreachable = errors.New("cannot reach etcd")

var (
	ttlParam     = seconds("ttl", 10*time.Second, "how long a dead holder keeps the lock, in whole seconds; the server may make it longer")
	timeoutParam = param.Duration("timeout", 10*time.Second, 0, "how long an acquisition may take")
)

// seconds is a duration in whole seconds: etcd counts no others.
func seconds(name string, def time.Duration, summary string) param.Param {
	p := param.Duration(name, def, time.Second, summary)
	normalize := p.Normalize
	p.Normalize = func(value string) (string, error) {
		value, err := normalize(value)
		if err != nil {
			return "", err
		}
		if d, err := time.ParseDuration(value); err != nil || d%time.Second != 0 {
			return "", fmt.Errorf("%s is not in whole seconds", value)
		}
		return value, nil
	}
	return p
}

// Kind is the Mutex of etcd's client library. A worker has a session, an etcd lease that is kept alive in the background,
// and puts a key of its own, bound to it, under the lock's prefix: the key that was created first holds the lock, and
// everybody else watches the one created before its own. To release is to delete the key. The fence is the revision in
// which the key was created.
//
// It promises that only its holder releases it; that waiters get it in the order they came; that a crashed holder holds it
// no longer than its session's TTL; that clients' clocks do not matter; that with a cluster of three or more it works on
// while a minority is down. A lease's context ends when the session does, or when it has not been kept alive for three
// quarters of its TTL: before the server can give the lock to someone else.
//
// What breaks it: a holder that is paused for longer than the TTL between a look at its context and its write. Only a
// store that checks the fence can stop that write. A key that someone deletes by hand is missed at the release only. Each
// acquisition and each release is written to the disks of a majority of the servers.
//
// Source: etcd's client library, package concurrency.
func Kind() lock.Kind {
	promises := lock.Promises{
		Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fair: true, Fenced: true,
		SurvivesNodeLoss: true, NoticesLoss: true,
	}
	return lock.Kind{
		Name:     "etcd",
		Summary:  "the Mutex of etcd's client library: a key a waiter, bound to a session; the oldest holds the lock",
		Source:   "go.etcd.io/etcd/client/v3/concurrency",
		Wakes:    "watch",
		Promises: promises,
		Params:   []param.Param{ttlParam, timeoutParam},
		Keys:     func(string) []string { return nil }, // nothing in Redis
		Needs:    lock.NeedsEtcd,
		OwnClock: true,
		New: func(env lock.Env) (lock.Locker, error) {
			if len(env.Servers.Etcd) == 0 {
				return nil, fmt.Errorf("%w: etcd needs the address of an etcd server", lock.ErrServers)
			}
			promises := promises
			promises.SurvivesNodeLoss = len(env.Servers.Etcd) >= 3 // as far as is known: an address may stand for several
			return open(env, promises)
		},
	}
}
