package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

var zooTTL = param.Duration("ttl", 10*time.Second, 100*time.Millisecond,
	"session timeout: how long a dead holder keeps the lock; the server may make it longer or shorter").As(param.Lease)

// ZooKeeper is ZooKeeper's lock recipe. A worker makes an ephemeral sequential node under
// the lock's node and lists them all: the lowest number holds the lock, and everybody
// else watches the one node before its own, so that a release wakes one waiter. To
// release is to delete the node. Its fence is the node's czxid, the number of the
// transaction that made it, because the sequence starts again at 0 when the lock's node
// is made anew. A node carries a random token in its name, by which its worker finds it
// when the reply to its creation was lost. The lock's own nodes are containers, which the
// server removes a minute or two after the last node in them is gone.
//
// With one address nobody can take over: when its server has said
// nothing for three seconds, acquisitions fail with [ErrUnreachable], and
// releases are not waited for.
//
// What breaks it: what the package comment says. Source: ZooKeeper Recipes and
// Solutions, "Locks".
func ZooKeeper() lock.Kind {
	return complete(lock.Kind{
		Name:     "zookeeper",
		Summary:  "ephemeral sequential nodes; each waiter watches the one before; a lost session cancels the lease",
		Source:   `ZooKeeper Recipes, "Locks"`,
		Promises: promises,
		Params:   []param.Param{zooTTL, lock.TimeoutParam},
		Needs:    lock.NeedsZooKeeper,
	}, func(s lock.Servers) []string { return s.ZooKeeper }, joinZoo)
}

// zooRoot is the node above those of all locks of a run.
func zooRoot(key func(name string) string) string { return zooPart(key("")) }

// zooDir is the node of the lock called name, which has a child for each waiter.
func zooDir(key func(name string) string, name string) string {
	return zooRoot(key) + zooPart(strings.TrimPrefix(key(name), key("")))
}

// zooPart makes a key one part of a path, which must not be empty, a dot or two.
func zooPart(key string) string { return "/-" + url.PathEscape(key) }

func (c *zooClient) place(name string, calls *calls) place {
	return &zooPlace{client: c, calls: calls, dir: zooDir(c.env.Key, name), token: rand.Text() + "-"}
}

// zooPlace is one node in the queue of a lock, from before it is made until it is removed.
type zooPlace struct {
	client *zooClient
	calls  *calls
	dir    string // the lock's node
	token  string // how the name of our node begins
	path   string // our node; empty if there is none
	unsure bool   // there may be a node whose path we do not know
}

// take implements place. It goes on after lost connections and sessions for as
// long as it may wait, or for a moment if it does not wait for others.
func (p *zooPlace) take(ctx context.Context, until time.Time) (*term, int64, error) {
	waits := !until.IsZero()
	if !waits {
		until = time.Now().Add(lookTimeout)
	}
	silent := p.client.silent()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(silent, stop)()
	waiting, cancel := context.WithDeadlineCause(ctx, until, lock.ErrTimeout)
	defer cancel()

	var trouble error // with the servers
	for {
		var seen line
		err := p.calls.await(ctx, func() (err error) {
			seen, err = p.look(waits)
			return err
		})

		switch {
		case err == nil && seen.first:
			return seen.term, seen.czxid, nil
		case err == nil && seen.ahead == nil: // look was not to wait
			return nil, 0, lock.ErrHeld
		case err == nil:
			p.client.env.Steps.At(ctx, step.Waiting)
			select {
			case e := <-seen.ahead:
				err = e.Err
			case <-waiting.Done():
				err = context.Cause(waiting)
			}
		}

		// Asked first: ctx ends with silent, and err may say no more than that.
		if silent.Err() != nil {
			return nil, 0, context.Cause(silent)
		}
		if err != nil && (waiting.Err() != nil || lasting(err)) {
			return nil, 0, errors.Join(err, trouble)
		}

		trouble = err
		if trouble != nil {
			_ = locking.Sleep(waiting, retryEvery, nil) // if waiting ends, the next try says so
		}
	}
}

// line is what a place sees of its line.
type line struct {
	first bool            // ours is the first
	ahead <-chan zk.Event // tells when the node before ours is gone
	czxid int64           // of our node
	term  *term
}

// look makes our node if there is none, and looks at the line. If it is to wait, it
// watches the node before ours.
func (p *zooPlace) look(waits bool) (line, error) {
	conn := p.client.conn
	// Read before the requests: if the session is lost meanwhile, this term is over, and a
	// later one would not show it.
	current := p.client.current()
	if err := p.enter(); err != nil {
		return line{}, err
	}

	var stat *zk.Stat
	own := make(chan error, 1)
	go func() { // both requests travel together
		_, s, err := conn.Exists(p.path)
		stat = s
		own <- err
	}()
	names, _, err := conn.Children(p.dir)
	// The goroutine is waited for after an error, too: it reads p.path, which leave may change.
	if err := errors.Join(err, <-own); err != nil {
		return line{}, err
	}

	ahead, found := before(names, strings.TrimPrefix(p.path, p.dir+"/"))
	switch {
	case !found || stat.Czxid == 0:
		p.path = "" // its session has expired
		return line{}, zk.ErrSessionExpired
	case ahead == "" && current.over():
		return line{}, zk.ErrSessionExpired // or may have expired by now: look again
	case ahead == "" || !waits:
		return line{first: ahead == "", czxid: stat.Czxid, term: current}, nil
	}

	// ExistsW would also watch for a node that is gone already.
	_, _, gone, err := conn.GetW(p.dir + "/" + ahead)
	if err == zk.ErrNoNode {
		return p.look(waits)
	}
	return line{ahead: gone}, err
}

// before returns the name of the node before ours; found is false when ours is
// not among them.
func before(names []string, own string) (ahead string, found bool) {
	for _, name := range names {
		found = found || name == own
		if number(name) < number(own) && number(name) > number(ahead) {
			ahead = name
		}
	}
	return ahead, found
}

// number is the sequence number at the end of a node's name, which the server
// makes ten digits long.
func number(name string) string { return name[max(0, len(name)-10):] }

// enter makes our node, unless there is one.
func (p *zooPlace) enter() error {
	err := p.find()
	if err == nil && p.path == "" {
		p.unsure = true
		p.path, err = p.create()
		p.unsure = err != nil
	}
	return err
}

// create makes our node and, where they are missing, the lock's nodes above it.
func (p *zooPlace) create() (string, error) {
	conn := p.client.conn
	acl := zk.WorldACL(zk.PermAll)
	path, err := conn.Create(p.dir+"/"+p.token, nil, zk.FlagEphemeralSequential, acl)
	if err != zk.ErrNoNode {
		return path, err
	}
	for _, parent := range []string{zooRoot(p.client.env.Key), p.dir} {
		if _, err := conn.CreateContainer(parent, nil, zk.FlagContainer, acl); err != nil && err != zk.ErrNodeExists {
			return "", fmt.Errorf("making %s (ZooKeeper 3.5 or newer is needed): %w", parent, err)
		}
	}
	return conn.Create(p.dir+"/"+p.token, nil, zk.FlagEphemeralSequential, acl)
}

// find finds a node that we may have made without getting the reply.
func (p *zooPlace) find() error {
	if !p.unsure {
		return nil
	}
	names, _, err := p.client.conn.Children(p.dir)
	if err != nil && err != zk.ErrNoNode {
		return err
	}
	p.unsure = false
	isOwn := func(name string) bool { return strings.HasPrefix(name, p.token) }
	if i := slices.IndexFunc(names, isOwn); i >= 0 {
		p.path = p.dir + "/" + names[i]
	}
	return nil
}

// leave implements place. It tries until the Locker is closed.
func (p *zooPlace) leave() error {
	asked := false
	return p.client.repeat(p.client.closing, func(context.Context) error {
		if err := p.find(); err != nil {
			return err
		}
		if p.path == "" {
			return lock.ErrLost
		}

		err := p.client.conn.Delete(p.path, -1)
		if err == zk.ErrNoNode {
			if !asked {
				return lock.ErrLost
			}
			return nil // an earlier request has deleted it
		}
		asked = true
		return err
	})
}

// lasting reports whether an error does not go away by itself, as do those of a lost
// connection or session and of a node that somebody removed: after these it is unknown
// whether the server did what it was asked for.
func lasting(err error) bool {
	return slices.ContainsFunc([]error{
		lock.ErrLost, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed,
		zk.ErrInvalidPath, zk.ErrInvalidFlags,
		zk.ErrBadArguments, zk.ErrAPIError, zk.ErrUnknown,
	}, func(lasts error) bool {
		return errors.Is(err, lasts)
	})
}
