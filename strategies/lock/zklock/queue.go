package zklock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/strategies/lock"
)

// waiter is one worker's node in the queue of a lock, from before it is made until it is removed.
type waiter struct {
	locker *locker
	dir    string // the lock's node
	token  string // how the names of our nodes begin
	lease  *lease // what it becomes when its node is the first

	calls  sync.WaitGroup // under way: a call cannot be interrupted, only left to end by itself
	path   string         // our node; empty if there is none
	unsure bool           // there may be a node whose path we do not know

	removal sync.Mutex
	asked   bool // we have asked to delete our node, and do not know whether that was done
}

func newWaiter(l *locker, name string) *waiter {
	w := &waiter{locker: l, dir: l.tree.dir(name), token: rand.Text() + "-"}
	w.lease = &lease{waiter: w}
	return w
}

// await makes a call that takes no context. When ctx ends first it returns at once; the call ends by itself, and its
// result is lost.
func await[T any](ctx context.Context, calls *sync.WaitGroup, call func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	calls.Go(func() {
		value, err := call()
		answered <- answer{value, err}
	})
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// look makes our node if there is none, and returns the name of the node before it: empty when our node is the first.
func (w *waiter) look(ctx context.Context) (ahead string, err error) {
	conn, validity := w.locker.session.conn, w.locker.session.current()
	if err := w.enter(ctx); err != nil {
		return "", err
	}
	// Both requests travel together.
	own := make(chan error, 1)
	path, stat := w.path, (*zk.Stat)(nil)
	w.calls.Go(func() {
		_, s, err := conn.Exists(path)
		stat = s
		own <- err
	})
	names, err := await(ctx, &w.calls, func() ([]string, error) {
		names, _, err := conn.Children(w.dir)
		return names, errors.Join(err, <-own)
	})
	if err != nil {
		return "", err
	}
	ahead, found := before(names, strings.TrimPrefix(path, w.dir+"/"))
	if !found || stat.Czxid == 0 {
		w.path = "" // its session has expired
		return "", zk.ErrSessionExpired
	}
	if ahead == "" && validity.ctx.Err() != nil {
		return "", zk.ErrSessionExpired // or may have expired by now: look again
	}
	w.lease.ctx, w.lease.fence = validity.ctx, stat.Czxid
	return ahead, nil
}

// before returns the name of the node before ours; found is false when ours is not among them.
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

// number is the sequence number at the end of a node's name, and -1 if there is none.
func number(name string) int {
	const digits = 10
	n, err := strconv.Atoi(name[max(0, len(name)-digits):])
	if err != nil {
		return -1
	}
	return n
}

// enter makes our node, unless there is one.
func (w *waiter) enter(ctx context.Context) error {
	if w.unsure {
		path, err := await(ctx, &w.calls, w.find)
		if err != nil {
			return err
		}
		w.path, w.unsure = path, false
	}
	if w.path != "" {
		return nil
	}
	w.unsure = true
	path, err := await(ctx, &w.calls, w.create)
	if err != nil {
		return err
	}
	w.path, w.unsure = path, false
	return nil
}

func (w *waiter) create() (string, error) {
	conn, acl := w.locker.session.conn, zk.WorldACL(zk.PermAll)
	path, err := conn.Create(w.dir+"/"+w.token, nil, zk.FlagEphemeralSequential, acl)
	if err != zk.ErrNoNode {
		return path, err
	}
	for _, parent := range []string{w.locker.tree.root, w.dir} {
		if _, err := conn.CreateContainer(parent, nil, zk.FlagContainer, acl); err != nil && err != zk.ErrNodeExists {
			return "", fmt.Errorf("making %s (ZooKeeper 3.5 or newer is needed): %w", parent, err)
		}
	}
	return conn.Create(w.dir+"/"+w.token, nil, zk.FlagEphemeralSequential, acl)
}

// find returns the path of a node that we made without getting the reply, or "".
func (w *waiter) find() (string, error) {
	names, _, err := w.locker.session.conn.Children(w.dir)
	if err != nil && err != zk.ErrNoNode {
		return "", err
	}
	for _, name := range names {
		if strings.HasPrefix(name, w.token) {
			return w.dir + "/" + name, nil
		}
	}
	return "", nil
}

// wait returns when the node ahead is gone.
func (w *waiter) wait(ctx context.Context, ahead string, deadline <-chan time.Time) error {
	gone, err := await(ctx, &w.calls, func() (<-chan zk.Event, error) {
		// ExistsW would also watch for a node that is gone already.
		_, _, gone, err := w.locker.session.conn.GetW(w.dir + "/" + ahead)
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

// remove waits until no call about our node is under way and deletes it. It returns ErrLost if there is none.
func (w *waiter) remove() error {
	w.calls.Wait()
	w.removal.Lock()
	defer w.removal.Unlock()
	if w.unsure {
		path, err := w.find()
		if err != nil {
			return err
		}
		w.path, w.unsure = path, false
	}
	if w.path == "" {
		return lock.ErrLost
	}
	err := w.locker.session.conn.Delete(w.path, -1)
	switch {
	case err == zk.ErrNoNode && !w.asked:
		err = lock.ErrLost
	case err == zk.ErrNoNode:
		err = nil
	case err != nil:
		w.asked = true
		return err
	}
	w.path = ""
	return err
}

// tree says where locks are: all of a run under one root, each a node that has a child for each waiter.
type tree struct {
	root string
	key  func(name string) string
}

func newTree(key func(name string) string) tree { return tree{root: "/" + escape(key("")), key: key} }

// dir is the node of the lock called name.
func (t tree) dir(name string) string {
	return t.root + "/" + escape(strings.TrimPrefix(t.key(name), t.key("")))
}

// escape makes a key one part of a path. Different keys stay different.
func escape(key string) string {
	switch escaped := url.PathEscape(key); escaped {
	case "": // no escaped key has a % alone
		return "%"
	case ".", "..":
		return "%" + escaped
	default:
		return escaped
	}
}

const (
	tidyPatience = 5 * time.Second
	tidyAtOnce   = 16
)

// tidier removes the nodes of a run's locks, which are empty when no worker has a node in their queues.
type tidier struct {
	servers []string
	root    string
}

// Close removes what it can. The rest is in use by others, or containers that the server will remove.
func (t tidier) Close() error {
	s, err := connect(t.servers, ttlDefault, tidyPatience, unlimited, lock.Traffic{})
	if err != nil {
		return nil
	}
	defer s.close()
	conn := s.conn
	names, _, err := conn.Children(t.root)
	if err != nil {
		return nil
	}
	var work sync.WaitGroup
	todo := make(chan string)
	for range min(tidyAtOnce, len(names)) {
		work.Go(func() {
			for name := range todo {
				_ = conn.Delete(t.root+"/"+name, -1)
			}
		})
	}
	for _, name := range names {
		todo <- name
	}
	close(todo)
	work.Wait()
	_ = conn.Delete(t.root, -1)
	return nil
}
