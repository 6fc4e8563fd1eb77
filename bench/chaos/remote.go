package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/internal/child"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// remote is the child, seen from its parent.
type remote struct {
	process *child.Process

	mu      sync.Mutex
	last    int64 // the id of the last request
	waiting map[int64]chan answer
	ended   bool // no answer comes any more
	read    chan struct{}
}

// startChild starts the child of a row.
func (s *Setup) startChild(c bench.Config, private servers.Addresses) (*remote, error) {
	config := childConfig{
		Subject: c.Subject.String(), Prefix: c.Keys.Prefix(), ZooKeeper: private.ZooKeeper, Etcd: private.Etcd,
	}
	if config.Cluster = s.cluster != nil; config.Cluster {
		config.Lines = append(config.Lines, s.server.Target.String())
	}
	for _, p := range s.proxies {
		config.Lines = append(config.Lines, p.Target().String())
	}
	for _, t := range private.Masters {
		config.Masters = append(config.Masters, t.String())
	}
	process, err := child.Start(childRole, "")
	if err != nil {
		return nil, fmt.Errorf("start the process of half the workers: %w", err)
	}
	r := &remote{process: process, waiting: map[int64]chan answer{}, read: make(chan struct{})}
	go r.receive()
	if err := process.Send(config); err != nil {
		return nil, errors.Join(fmt.Errorf("configure the process of half the workers: %w", err), r.close())
	}
	return r, nil
}

// receive passes answers on until the child ends.
func (r *remote) receive() {
	defer close(r.read)
	for {
		var a answer
		err := r.process.Receive(&a)
		r.mu.Lock()
		if err != nil {
			r.ended = true
			for _, w := range r.waiting {
				close(w)
			}
			r.mu.Unlock()
			return
		}
		if w := r.waiting[a.ID]; w != nil {
			w <- a // there is room for one
			delete(r.waiting, a.ID)
		}
		r.mu.Unlock()
	}
}

// close ends the child.
func (r *remote) close() error {
	err := r.process.Kill()
	<-r.read
	return err
}

// failure says that the child has ended, and its last words.
func (r *remote) failure() error {
	return fmt.Errorf("the process of half the workers has ended: %s", r.process.Log())
}

// gone is failure if the child has ended, else nil.
func (r *remote) gone() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		return nil
	}
	return r.failure()
}

// send gives a request its id and sends it. Its answer comes by the channel, which is closed if the child ends instead.
func (r *remote) send(q *request) (<-chan answer, error) {
	answers := make(chan answer, 1)
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", market.ErrNotSent, r.failure())
	}
	r.last++
	q.ID = r.last
	r.waiting[q.ID] = answers
	r.mu.Unlock()
	if err := r.process.Send(q); err != nil {
		return nil, fmt.Errorf("%w: %w", r.failure(), err) // a part of it may have arrived
	}
	return answers, nil
}

// ask waits for the answer to a request, also when ctx ends: the child is then told to end the operation.
func (r *remote) ask(ctx context.Context, q request) (answer, error) {
	answers, err := r.send(&q)
	if err != nil {
		return answer{}, err
	}
	defer context.AfterFunc(ctx, func() {
		_ = r.process.Send(request{ID: q.ID, Do: doCancel, Role: q.Role, Worker: q.Worker}) // or the child has ended
	})()
	a, ok := <-answers
	if !ok {
		return answer{}, r.failure()
	}
	return a, nil
}

// hold holds the first buyer in the child that comes to a step. The channel says that one has, or is closed if the child
// ends. free lets the buyer go, and is to be called in any case.
func (r *remote) hold(at step.Name) (reached <-chan answer, free func() error, err error) {
	reached, err = r.send(&request{Do: doHold, Step: at})
	return reached, func() error { return r.process.Send(request{Do: doFree}) }, err
}

// opener opens the Purchasers of a row: every second one of a role works in the child.
func (r *remote) opener(subject bench.Subject) func(bench.Role, int, *backend.Conn, strategies.Env) (
	market.Purchaser, io.Closer, error,
) {
	return func(role bench.Role, i int, conn *backend.Conn, env strategies.Env) (market.Purchaser, io.Closer, error) {
		if i%2 == 0 {
			return subject.Open(env)
		}
		p := &remotePurchaser{child: r, role: role, number: i, conn: conn, env: env}
		_, err := p.do(context.Background(), request{Do: doOpen})
		return p, p, err
	}
}

// remotePurchaser is the Purchaser of a worker whose operations are done in the child.
type remotePurchaser struct {
	child  *remote
	role   bench.Role
	number int
	conn   *backend.Conn // the worker's in this process
	env    strategies.Env
}

func (p *remotePurchaser) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	return p.do(ctx, request{Do: doList, Listing: l})
}

func (p *remotePurchaser) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	return p.do(ctx, request{Do: doBuy, Order: o})
}

// Close implements io.Closer. What a child that is gone had open is closed.
func (p *remotePurchaser) Close() error {
	_, err := p.do(context.Background(), request{Do: doClose})
	return err
}

// do lets the child do something for the worker, and counts and reports what it did as if it had been done here.
func (p *remotePurchaser) do(ctx context.Context, q request) (market.Receipt, error) {
	q.Role, q.Worker = p.role, p.number
	a, err := p.child.ask(ctx, q)
	if err != nil {
		return market.Receipt{}, err
	}
	p.conn.Stats.Count(a.Market)
	p.env.Traffic.Servers.Count(a.Locks)
	now := time.Now()
	// Both processes have one wall clock, and each a monotonic clock of its own.
	here := func(t time.Time) time.Time { return now.Add(t.Sub(now.Round(0))) }
	for _, h := range a.Holdings {
		h.Called, h.Acquired = here(h.Called), here(h.Acquired)
		h.Releasing, h.Released = here(h.Releasing), here(h.Released)
		if p.env.Holds != nil {
			p.env.Holds(h)
		}
	}
	return a.Receipt, a.err()
}

// childError is an error that the child was given.
type childError struct {
	text  string
	class error // of those that market.Refused knows; nil: the outcome is unknown
}

func (e childError) Error() string { return e.text }

func (e childError) Unwrap() error { return e.class }

func (a answer) err() error {
	if a.Error == "" {
		return nil
	}
	return childError{a.Error, market.Refusal(a.Reason)}
}
