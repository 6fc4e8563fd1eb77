package session

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

var zooTTL = param.Duration("ttl", 10*time.Second, 100*time.Millisecond,
	"session timeout: how long a dead holder keeps the lock; the server may make it longer or shorter").As(param.Lease)

// ZooKeeper is ZooKeeper's lock recipe. A worker makes an ephemeral sequential node under the lock's node and lists
// them all: the lowest number holds the lock, and everybody else watches the one node before its own, so that a release
// wakes one waiter. To release is to delete the node. Its fence is the node's czxid, the number of the transaction that
// made it, because the sequence starts again at 0 when the lock's node is made anew. A node carries a random token in
// its name, by which its worker finds it when the reply to its creation was lost. The lock's own nodes are containers,
// which the server removes a minute or two after the last node in them is gone.
//
// Where there is one address, nobody can take over: when its server has said nothing for three seconds, acquisitions
// fail with [ErrUnreachable], and releases are not waited for.
//
// What breaks it: what the package comment says. Source: ZooKeeper Recipes and Solutions, "Locks".
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

// take implements place. It goes on after lost connections and sessions for as long as it may wait.
func (p *zooPlace) take(ctx context.Context, until time.Time) (*term, int64, error) {
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
			seen, err = p.look(!until.IsZero())
			return err
		})
		switch {
		case err == nil && seen.first:
			return seen.term, seen.czxid, nil
		case err == nil && seen.ahead == nil:
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
		if silent.Err() != nil {
			return nil, 0, context.Cause(silent)
		}
		if err != nil && (waiting.Err() != nil || lasting(err)) {
			return nil, 0, errors.Join(err, trouble)
		}
		trouble = err
		if trouble != nil {
			select {
			case <-time.After(retryEvery):
			case <-waiting.Done():
			}
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

// look makes our node if there is none, and looks at the line. If it is to wait, it watches the node before ours.
func (p *zooPlace) look(waits bool) (line, error) {
	conn, current := p.client.conn, p.client.current()
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

// before returns the name of the node before ours; found is false when ours is not among them.
func before(names []string, own string) (ahead string, found bool) {
	for _, name := range names {
		found = found || name == own
		if number(name) < number(own) && number(name) > number(ahead) {
			ahead = name
		}
	}
	return ahead, found
}

// number is the sequence number at the end of a node's name, which the server makes ten digits long.
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

func (p *zooPlace) create() (string, error) {
	conn, acl := p.client.conn, zk.WorldACL(zk.PermAll)
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
	if i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, p.token) }); i >= 0 {
		p.path = p.dir + "/" + names[i]
	}
	return nil
}

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

// lasting reports whether an error does not go away by itself, as do those of a lost connection or session and of a
// node that somebody removed: after these it is unknown whether the server did what it was asked for.
func lasting(err error) bool {
	return slices.ContainsFunc([]error{
		lock.ErrLost, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrInvalidPath, zk.ErrInvalidFlags,
		zk.ErrBadArguments, zk.ErrAPIError, zk.ErrUnknown,
	}, func(lasts error) bool { return errors.Is(err, lasts) })
}

// zooBuffer fits a list of thousands of waiters; the client library's default is 1.5 MB, twice for each worker.
const zooBuffer = 256 << 10

// zooClient is a worker's client of ZooKeeper. Its session, once expired, is followed by another: the library opens it.
type zooClient struct {
	*locker
	conn *zk.Conn
	only *onlyServer // nil: there are others

	mu      sync.Mutex
	term    *term
	timeout time.Duration // that the server chose
	logged  string        // the client library's last message
	last    net.Conn
	left    bool // the session is left to expire: no more connections
}

func joinZoo(l *locker, servers []string, patience time.Duration) (client, error) {
	c := &zooClient{locker: l, term: newTerm(time.Time{}, 0)}
	if len(servers) == 1 {
		c.only = newOnlyServer(servers[0])
		l.silent = c.only.isSilent
	}
	var events <-chan zk.Event
	var err error
	c.conn, events, err = zk.Connect(servers, l.env.Params.Duration(zooTTL),
		zk.WithDialer(c.dial), zk.WithLogger(c), zk.WithLogInfo(true),
		zk.WithMaxConnBufferSize(zooBuffer), zk.WithMaxBufferSize(zooBuffer))
	if err != nil {
		return nil, err
	}
	for late := time.After(patience); c.conn.State() != zk.StateHasSession; {
		select {
		case <-events:
		case <-late:
			_ = c.close()
			c.mu.Lock()
			defer c.mu.Unlock()
			return nil, fmt.Errorf("no session within %s: %s", patience, c.logged)
		}
	}
	return c, nil
}

const (
	silence         = 3 * time.Second // of the only server, before it is called silent
	greetingTimeout = 5 * time.Second // for the first reply on a connection
	closeTimeout    = 500 * time.Millisecond
)

// An onlyServer is what a worker hears of the server at a lock's only address. Nobody can take over from it.
type onlyServer struct {
	mu       sync.Mutex
	patience time.Duration
	unheard  error           // why silent ends
	owes     *time.Timer     // runs from the first request since its last answer; nil: it owes none
	silent   context.Context // ends when that takes too long; another one begins with the next answer
	mute     context.CancelCauseFunc
}

func newOnlyServer(addr string) *onlyServer {
	unheard := fmt.Errorf("%w: the ZooKeeper at %s has said nothing for %s: is it stopped?", ErrUnreachable, addr, silence)
	o := &onlyServer{patience: silence, unheard: unheard}
	o.silent, o.mute = context.WithCancelCause(context.Background())
	return o
}

// asked notes that the server owes an answer from now on.
func (o *onlyServer) asked() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owes == nil {
		mute := o.mute
		o.owes = time.AfterFunc(o.patience, func() { mute(o.unheard) })
	}
}

// answered notes that the server is there.
func (o *onlyServer) answered() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owes != nil {
		o.owes.Stop()
		o.owes = nil
	}
	if o.silent.Err() != nil {
		o.silent, o.mute = context.WithCancelCause(context.Background())
	}
}

func (o *onlyServer) isSilent() context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.silent
}

// Printf implements zk.Logger, quietly.
func (c *zooClient) Printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logged = fmt.Sprintf(format, args...)
}

// greeting notes the first reply on a connection: the timeout of the session, and 0 if it has expired.
func (c *zooClient) greeting(sent time.Time, timeout time.Duration) {
	c.mu.Lock()
	c.timeout = timeout
	c.mu.Unlock()
	if timeout == 0 {
		c.current().finish(lock.ErrLost)
	} else {
		c.answered(sent)
	}
}

// answered notes when a request was sent that the server has answered. A term that is over is followed by a new one.
func (c *zooClient) answered(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.term.proven(sent, c.timeout) {
		c.term = newTerm(sent, c.timeout)
	}
}

func (c *zooClient) current() *term {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}

// leave implements client. To close the connection of the client library would end the session.
func (c *zooClient) leave() error {
	c.mu.Lock()
	c.left = true
	if c.last != nil {
		c.last.Close()
	}
	c.term.finish(context.Canceled)
	c.mu.Unlock()
	c.conn.Close() // which cannot say good-bye any more
	return nil
}

// close ends the session. The client library would wait for a server that does not answer until its time-outs.
func (c *zooClient) close() error {
	patience := closeTimeout
	if c.only != nil && c.only.isSilent().Err() != nil {
		patience = retryEvery
	}
	defer time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.last != nil {
			c.last.Close()
		}
	}).Stop()
	c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term.finish(context.Canceled)
	return nil
}

var errLeft = errors.New("the session is left to expire")

// dial is a zk.Dialer whose connections report to c.
func (c *zooClient) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c.only.asked()
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		conn.Close()
		return nil, errLeft
	}
	c.last = conn
	return c.wrap(conn), nil
}

func (c *zooClient) wrap(conn net.Conn) *zooConn {
	return &zooConn{Conn: conn, client: c, received: bufio.NewReader(conn)}
}

// zooConn is a connection that tells its session when each request was sent that the server has answered. For that it
// reads the first bytes of each packet, because the client library reports neither this nor the timeout that the server
// chose. A watch's event proves nothing: the server sends it without having heard from the client. Requests of our own
// would be more load on the servers that are measured, and leave the timeout unknown.
type zooConn struct {
	net.Conn
	client   *zooClient
	received *bufio.Reader
	rest     int  // bytes of the packet that is being read
	answered bool // the first packet was read, the greeting

	sent      unanswered
	requested bool        // the first packet was written, the request for a session
	asked     atomic.Bool // the last packet but heartbeats was a request
}

const (
	// A packet begins with its length. The version and the timeout follow in a greeting, else the request's number.
	zooHead      = 12
	zooEvent     = -1 // the number of what is no reply
	zooHeartbeat = -2 // the number of a request that only keeps the session
)

// Write implements net.Conn. The client library writes each request at once.
func (c *zooConn) Write(b []byte) (int, error) {
	c.sent.send()
	c.client.only.asked()
	if c.requested && len(b) >= 8 {
		c.count(int32(binary.BigEndian.Uint32(b[4:])), backend.Counts{Commands: 1, BytesSent: int64(len(b))})
	}
	c.requested = true
	return c.Conn.Write(b)
}

// SetReadDeadline bounds the wait for the first reply: ZooKeeper 3.8.0 is silent while it loads its data.
func (c *zooConn) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(greetingTimeout); !c.answered && t.After(latest) {
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// Read implements net.Conn. One goroutine reads.
func (c *zooConn) Read(b []byte) (int, error) {
	if c.rest == 0 {
		head, err := c.received.Peek(zooHead)
		if err != nil {
			return 0, err
		}
		c.rest = max(zooHead, int(binary.BigEndian.Uint32(head))+4)
		c.packet(int32(binary.BigEndian.Uint32(head[4:])), binary.BigEndian.Uint32(head[8:]))
	}
	n, err := c.received.Read(b[:min(len(b), c.rest)])
	c.rest -= n
	return n, err
}

func (c *zooConn) packet(number int32, more uint32) {
	if c.answered {
		c.count(number, backend.Counts{BytesReceived: int64(c.rest)})
		if number == zooEvent {
			return
		}
	}
	sent, owes, ok := c.sent.answer()
	switch {
	case !ok: // a reply without a request
	case c.answered:
		c.client.answered(sent)
	default:
		c.client.greeting(sent, time.Duration(more)*time.Millisecond)
	}
	c.client.only.answered()
	if owes {
		c.client.only.asked()
	}
	c.answered = true
}

// count counts a request or, without commands, a reply or event. Requests sent together are one round trip.
func (c *zooConn) count(number int32, counts backend.Counts) {
	into := c.client.env.Traffic.Servers
	switch {
	case number == zooHeartbeat:
		into, counts.RoundTrips = c.client.env.Traffic.Background, counts.Commands
	case counts.Commands == 0:
		c.asked.Store(false)
	case !c.asked.Swap(true):
		counts.RoundTrips = 1
	}
	into.Count(counts)
}
