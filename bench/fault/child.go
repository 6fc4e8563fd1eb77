package fault

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/masters"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

// childEnv marks a process that plays a client.
const childEnv = "MARKETSIM_FAULT_CHILD"

// ServeChild plays a client if this process was started to be one, and then ends the process. In any other process it
// returns at once. subjects finds the subject of a name, as in Subject.String.
func ServeChild(subjects func(name string) (Purchasing, error)) {
	if os.Getenv(childEnv) == "" {
		return
	}
	backend.QuietLogs()
	if err := serve(os.Stdin, os.Stdout, subjects); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// client is the child's side of an actor.
type client struct {
	purchaser market.Purchaser
	accounts  int
	gate      gate

	mu  sync.Mutex
	out *json.Encoder
}

// serve plays one client until its input ends.
func serve(in io.Reader, out io.Writer, subjects func(string) (Purchasing, error)) error {
	lines := json.NewDecoder(bufio.NewReader(in))
	c := &client{out: json.NewEncoder(out)}
	c.gate.report = func(at step.Name) { c.tell(event{At: at}) }
	var cast casting
	if err := lines.Decode(&cast); err != nil {
		return fmt.Errorf("read the casting: %w", err)
	}
	closer, err := c.open(cast, subjects)
	if err != nil {
		c.tell(event{Error: err.Error()})
		return err
	}
	c.tell(event{Ready: true})
	var working sync.WaitGroup
	for {
		var cmd command
		if err := lines.Decode(&cmd); err != nil {
			c.gate.abandon()
			working.Wait()
			return closer()
		}
		switch cmd.Do {
		case doGo:
			c.gate.open()
		case doFree:
			c.gate.abandon()
		default:
			c.gate.set(cmd.Hold)
			working.Go(func() { c.work(cmd) })
		}
	}
}

func (c *client) tell(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(e) // a parent that is gone ends the input, too
}

func (c *client) work(cmd command) {
	ctx := context.Background()
	switch cmd.Do {
	case doList:
		c.tell(event{Done: outcomeOf(c.purchaser.List(ctx, cmd.Listing))})
	case doBuy:
		c.tell(event{Done: outcomeOf(c.purchaser.Purchase(ctx, cmd.Order))})
	case doLook:
		browser, ok := c.purchaser.(market.Browser)
		if !ok {
			c.tell(event{Error: "cannot browse"})
			return
		}
		seen, receipt, err := browser.Browse(ctx, cmd.Listing, c.accounts)
		o := outcomeOf(receipt, err)
		o.Torn = seen.Torn
		c.tell(event{Done: o})
	default:
		c.tell(event{Error: fmt.Sprintf("unknown command %q", cmd.Do)})
	}
}

// open connects and opens the Purchaser.
func (c *client) open(cast casting, subjects func(string) (Purchasing, error)) (closer func() error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	subject, err := subjects(cast.Subject)
	if err != nil {
		return nil, err
	}
	keys, err := market.NewKeys(cast.Prefix)
	if err != nil {
		return nil, err
	}
	dial := dialer(cast.Market, cast.Resend)
	lockDial := dial
	if cast.Locks != nil {
		lockDial = dialer(*cast.Locks, cast.Resend)
	}
	rdb, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	locks, err := lockDial(ctx)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	process := new(lock.Process)
	purchaser, opened, err := subject.Open(strategies.Env{
		Redis: rdb, Dial: dial, LockRedis: locks, LockDial: lockDial, Keys: keys, Process: process,
		Steps: c.gate.observe, Now: func() time.Time { return time.Now().Add(cast.Clock) },
		Servers: cast.servers(),
	})
	if err != nil {
		return nil, errors.Join(err, rdb.Close(), locks.Close())
	}
	c.purchaser, c.accounts = purchaser, cast.Accounts
	return func() error {
		return errors.Join(opened.Close(), process.Close(), locks.Close(), rdb.Close())
	}, nil
}

func (cast casting) servers() lock.Servers {
	targets := make([]backend.Target, len(cast.Masters))
	for i, m := range cast.Masters {
		targets[i] = m.target()
	}
	return lock.Servers{Masters: masters.Dialers(targets), ZooKeeper: cast.ZooKeeper, Etcd: cast.Etcd}
}

// dialer connects as every client of marketsim does, or as go-redis does by default when a command is to be sent again.
func dialer(e endpoint, resend bool) func(context.Context) (*redis.Client, error) {
	return func(ctx context.Context) (*redis.Client, error) {
		conn, err := backend.Dial(ctx, e.target())
		if err != nil || !resend {
			return clientOf(conn), err
		}
		options := *conn.Options()
		options.MaxRetries = defaultRetries
		return redis.NewClient(&options), conn.Close()
	}
}

// defaultRetries is how often go-redis sends a command again when nobody says otherwise.
const defaultRetries = 3

func clientOf(conn *backend.Conn) *redis.Client {
	if conn == nil {
		return nil
	}
	return conn.Client
}
