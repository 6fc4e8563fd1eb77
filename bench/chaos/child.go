package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/internal/child"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// childRole is the role of the process in which half of the workers work.
const childRole = "chaos"

// The parent and the child talk in lines of JSON: one childConfig, then requests down, and answers up.

// childConfig is what the child gets when it starts. Servers are private ones, without a password or TLS.
type childConfig struct {
	Subject, Prefix string
	Lines           []string // URLs
	Cluster         bool     // the one line is a node of a Redis Cluster, where workers follow the master of the market's slot
	Masters         []string // URLs
	ZooKeeper, Etcd []string
}

// The requests.
const (
	doOpen   = "open" // a worker's Purchaser
	doClose  = "close"
	doList   = "list"
	doBuy    = "buy"
	doCancel = "cancel" // the context of the request with this id
	doHold   = "hold"   // the first buyer that comes to a step; the answer says that one has
	doFree   = "free"   // who is held
)

type request struct {
	ID      int64
	Do      string
	Role    bench.Role // of the worker that it is about
	Worker  int        // its number among those of its role
	Listing market.Listing
	Order   market.Order
	Step    step.Name
}

// answer is what became of a request.
type answer struct {
	ID            int64
	Reason, Error string // as market.Reason names it, and any error's text
	Receipt       market.Receipt
	Holdings      []lock.Holding
	Market, Locks backend.Counts // what it cost
}

// ServeChild works for a row under faults if this process was started for that, and then ends the process. In any other
// process it returns at once. subjects finds the subject of a name, as in Subject.String.
func ServeChild(subjects func(name string) (bench.Subject, error)) {
	child.Serve(childRole, func(in io.Reader, out io.Writer) error { return serve(in, out, subjects) })
}

// served is the child, seen from itself.
type served struct {
	subject bench.Subject
	keys    market.Keys
	lines   []func(context.Context) (*backend.Conn, error)
	servers lock.Servers
	process lock.Process
	dials   atomic.Int64
	gate    atomic.Pointer[step.Gate] // nil: nobody is to be held

	mu      sync.Mutex
	out     *json.Encoder
	workers map[string]*servedWorker
}

// servedWorker is a worker's part in the child. The worker makes one request at a time, but for doCancel.
type servedWorker struct {
	mu                sync.Mutex
	conn              *backend.Conn // nil: it is not open
	purchaser         market.Purchaser
	closer            io.Closer
	holdings          []lock.Holding
	locks, background backend.Stats
	running           atomic.Pointer[running]
}

// running is a request that is being worked on.
type running struct {
	id     int64
	cancel context.CancelFunc
}

// serve answers requests until its input ends. What is open then ends with the process.
func serve(in io.Reader, out io.Writer, subjects func(string) (bench.Subject, error)) error {
	lines := json.NewDecoder(bufio.NewReader(in))
	var config childConfig
	if err := lines.Decode(&config); err != nil {
		return fmt.Errorf("read the configuration of a row: %w", err)
	}
	s := &served{out: json.NewEncoder(out), workers: map[string]*servedWorker{}}
	if err := s.configure(config, subjects); err != nil {
		return err
	}
	for {
		var q request
		if err := lines.Decode(&q); err != nil {
			return nil
		}
		switch q.Do {
		case doHold:
			gate := step.Hold(q.Step)
			s.gate.Store(gate)
			go func() {
				<-gate.Reached()
				s.answer(answer{ID: q.ID})
			}()
		case doFree:
			if gate := s.gate.Swap(nil); gate != nil {
				gate.Open()
			}
		case doCancel:
			if r := s.worker(q).running.Load(); r != nil && r.id == q.ID {
				r.cancel()
			}
		default:
			w := s.worker(q)
			ctx, cancel := context.WithCancel(context.Background())
			w.running.Store(&running{q.ID, cancel})
			go func() {
				defer cancel()
				s.answer(s.work(ctx, w, q))
			}()
		}
	}
}

func (s *served) configure(config childConfig, subjects func(string) (bench.Subject, error)) (err error) {
	if s.subject, err = subjects(config.Subject); err != nil {
		return err
	}
	if s.keys, err = market.NewKeys(config.Prefix); err != nil {
		return err
	}
	lines, err := targets(config.Lines)
	if err != nil {
		return err
	}
	if config.Cluster {
		cluster, err := backend.OpenCluster(context.Background(), lines[0])
		if err != nil {
			return err
		}
		s.lines, lines = append(s.lines, cluster.Route(s.keys.Market()).Dial), nil
	}
	for _, t := range lines {
		s.lines = append(s.lines, func(ctx context.Context) (*backend.Conn, error) { return backend.Dial(ctx, t) })
	}
	masters, err := targets(config.Masters)
	s.servers = lock.Servers{Masters: servers.Dialers(masters), ZooKeeper: config.ZooKeeper, Etcd: config.Etcd}
	return err
}

func targets(urls []string) (all []backend.Target, err error) {
	for _, url := range urls {
		t, err := backend.ParseURL(url)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// worker is the worker that a request is about. Only serve calls it.
func (s *served) worker(q request) *servedWorker {
	name := fmt.Sprint(q.Role, q.Worker)
	if s.workers[name] == nil {
		s.workers[name] = &servedWorker{}
	}
	return s.workers[name]
}

func (s *served) answer(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(a) // a parent that is gone ends the input, too
}

// work does what a worker asks for.
func (s *served) work(ctx context.Context, w *servedWorker, q request) answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	a := answer{ID: q.ID}
	w.holdings = nil
	if q.Do != doOpen && w.conn == nil {
		if q.Do != doClose {
			a.Reason, a.Error = market.Reason(market.ErrNotSent), "its worker is not connected"
		}
		return a
	}
	before, beforeLocks := backend.Counts{}, w.locks.Snapshot()
	if w.conn != nil {
		before = w.conn.Stats.Snapshot()
	}
	switch q.Do {
	case doOpen:
		err = s.open(ctx, w, q.Role)
	case doClose:
		err = errors.Join(w.closer.Close(), w.conn.Close())
		w.conn = nil
	case doList:
		a.Receipt, err = w.purchaser.List(ctx, q.Listing)
	case doBuy:
		a.Receipt, err = w.purchaser.Purchase(ctx, q.Order)
	default:
		err = fmt.Errorf("unknown request %q", q.Do)
	}
	if w.conn != nil {
		a.Market = w.conn.Stats.Snapshot().Sub(before)
	}
	a.Locks, a.Holdings = w.locks.Snapshot().Sub(beforeLocks), w.holdings
	if err != nil {
		a.Reason, a.Error = market.Reason(err), err.Error()
	}
	return a
}

// open connects a worker and opens its Purchaser.
func (s *served) open(ctx context.Context, w *servedWorker, role bench.Role) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	env := strategies.Env{
		Redis: conn.Client, Keys: s.keys, Servers: s.servers, Process: &s.process,
		Traffic: lock.Traffic{Servers: &w.locks, Background: &w.background},
		Holds:   func(h lock.Holding) { w.holdings = append(w.holdings, h) },
		Dial: func(ctx context.Context) (*redis.Client, error) {
			more, err := s.dial(backend.CountInto(ctx, &w.background))
			if err != nil {
				return nil, err
			}
			return more.Client, nil
		},
	}
	if role == bench.Buyer {
		env.Steps = func(ctx context.Context, at step.Name) {
			if gate := s.gate.Load(); gate != nil {
				gate.Observe(ctx, at)
			}
		}
	}
	purchaser, closer, err := s.subject.Open(env)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	w.conn, w.purchaser, w.closer = conn, purchaser, closer
	return nil
}

// dial connects a worker by one line after the other.
func (s *served) dial(ctx context.Context) (*backend.Conn, error) {
	return s.lines[int(s.dials.Add(1)-1)%len(s.lines)](ctx)
}
