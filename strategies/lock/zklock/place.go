package zklock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/strategies/lock"
)

// place is one worker's place in line for a lock.
type place struct {
	locker *locker
	dir    string // the lock's node
	token  string // how the names of our nodes begin
	lease  *lease // what it becomes

	calls  sync.WaitGroup // under way: a call cannot be interrupted, only left alone
	path   string         // our node; empty if there is none
	unsure bool           // there may be a node whose path we do not know

	removal sync.Mutex
	asked   bool // we have asked to delete our node, and do not know whether it was done
}

func newPlace(l *locker, name string) *place {
	var bits [16]byte
	rand.Read(bits[:]) // never fails
	p := &place{locker: l, dir: l.tree.dir(name), token: hex.EncodeToString(bits[:]) + "-"}
	p.lease = &lease{place: p}
	return p
}

// await makes a call that takes no context. When ctx ends first the call is left to end by itself, and its result is lost.
func await[T any](ctx context.Context, calls *sync.WaitGroup, call func() (T, error)) (T, error) {
	var result T
	var err error
	if err := ctx.Err(); err != nil {
		return result, err
	}
	done := make(chan struct{})
	var value T
	calls.Go(func() {
		defer close(done)
		value, err = call()
	})
	select {
	case <-done:
		return value, err
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// look takes a place in line if there is none, and returns the name of the node before it: empty when the lock is held.
func (p *place) look(ctx context.Context) (ahead string, err error) {
	conn, life := p.locker.session.conn, p.locker.session.current()
	if err := p.enter(ctx); err != nil {
		return "", err
	}
	// Both questions travel together.
	own := make(chan error, 1)
	path, stat := p.path, (*zk.Stat)(nil)
	p.calls.Go(func() {
		_, s, err := conn.Exists(path)
		stat = s
		own <- err
	})
	names, err := await(ctx, &p.calls, func() ([]string, error) {
		names, _, err := conn.Children(p.dir)
		return names, errors.Join(err, <-own)
	})
	if err != nil {
		return "", err
	}
	ahead, found := before(names, strings.TrimPrefix(path, p.dir+"/"))
	if !found || stat.Czxid == 0 {
		p.path = "" // its session has expired
		return "", zk.ErrSessionExpired
	}
	if ahead == "" && life.ctx.Err() != nil {
		return "", zk.ErrSessionExpired // or may have by now: look again
	}
	p.lease.ctx, p.lease.fence = life.ctx, stat.Czxid
	return ahead, nil
}

// before returns the name of the node before ours in line; found is false when ours is not among them.
func before(names []string, own string) (ahead string, found bool) {
	mine, nearest := number(own), -1
	for _, name := range names {
		found = found || name == own
		if n := number(name); n < mine && n > nearest {
			nearest, ahead = n, name
		}
	}
	return ahead, found
}

// number is the sequence number at the end of a node's name, and -1 for what is no node of ours.
func number(name string) int {
	const digits = 10
	n, err := strconv.Atoi(name[max(0, len(name)-digits):])
	if err != nil {
		return -1
	}
	return n
}

// enter makes our node, unless there is one.
func (p *place) enter(ctx context.Context) error {
	if p.unsure {
		path, err := await(ctx, &p.calls, p.find)
		if err != nil {
			return err
		}
		p.path, p.unsure = path, false
	}
	if p.path != "" {
		return nil
	}
	p.unsure = true
	path, err := await(ctx, &p.calls, p.create)
	if err != nil {
		return err
	}
	p.path, p.unsure = path, false
	return nil
}

func (p *place) create() (string, error) {
	conn, acl := p.locker.session.conn, zk.WorldACL(zk.PermAll)
	path, err := conn.Create(p.dir+"/"+p.token, nil, zk.FlagEphemeralSequential, acl)
	if err != zk.ErrNoNode {
		return path, err
	}
	for _, parent := range []string{p.locker.tree.root, p.dir} {
		if _, err := conn.CreateContainer(parent, nil, zk.FlagContainer, acl); err != nil && err != zk.ErrNodeExists {
			return "", fmt.Errorf("making %s (ZooKeeper 3.5 or newer is needed): %w", parent, err)
		}
	}
	return conn.Create(p.dir+"/"+p.token, nil, zk.FlagEphemeralSequential, acl)
}

// find returns the path of a node that we made without having been told, or "".
func (p *place) find() (string, error) {
	names, _, err := p.locker.session.conn.Children(p.dir)
	if err != nil && err != zk.ErrNoNode {
		return "", err
	}
	for _, name := range names {
		if strings.HasPrefix(name, p.token) {
			return p.dir + "/" + name, nil
		}
	}
	return "", nil
}

// wait returns when the node ahead is gone.
func (p *place) wait(ctx context.Context, ahead string, deadline <-chan time.Time) error {
	gone, err := await(ctx, &p.calls, func() (<-chan zk.Event, error) {
		_, _, gone, err := p.locker.session.conn.GetW(p.dir + "/" + ahead) // ExistsW would watch for a node that is gone
		return gone, err
	})
	if err == zk.ErrNoNode {
		return nil
	}
	if err != nil {
		return err
	}
	select {
	case e := <-gone:
		return e.Err
	case <-deadline:
		return lock.ErrTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
}

// remove deletes our node, when no call about it is under way any more. It returns ErrLost if there is none.
func (p *place) remove() error {
	p.calls.Wait()
	p.removal.Lock()
	defer p.removal.Unlock()
	if p.unsure {
		path, err := p.find()
		if err != nil {
			return err
		}
		p.path, p.unsure = path, false
	}
	if p.path == "" {
		return lock.ErrLost
	}
	err := p.locker.session.conn.Delete(p.path, -1)
	switch {
	case err == zk.ErrNoNode && !p.asked:
		err = lock.ErrLost
	case err == zk.ErrNoNode:
		err = nil
	case err != nil:
		p.asked = true
		return err
	}
	p.path = ""
	return err
}
