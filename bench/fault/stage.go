package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/masters"
	"github.com/marketsim/marketsim/market/backend/wire"
	"github.com/marketsim/marketsim/strategies/lock"
)

// What a stage is set with.
const (
	seller   = market.UserID(1)
	accounts = 8
	funds    = 1000 // coins of each account
	price    = 40   // coins of each item
	offered  = 12   // items that are listed when the play begins
)

// errLate is returned for a play in which this machine was too slow to tell the subject's fault from its own.
var errLate = errors.New("the machine was too slow for this scenario's short leases")

// A Stage is one market with the clients of one play. Its first failure is kept, and nothing happens after it, so that a
// play reads as a story; whoever staged it asks for the failure at the end.
type Stage struct {
	Subject Subject

	ttl        time.Duration // how long its leases last
	ctx        context.Context
	lab        *Lab
	cast       casting // of actors to come; a play may change it
	conn       *backend.Conn
	keys       market.Keys
	first      market.ItemID // of the seller's; the first few are listed
	before     market.Snapshot
	actors     []*Actor
	operations []*operation
	nth        int              // the command at which a subject that does not say where it is is held
	masters    *masters.Masters // of a lock that needs some
	closers    []io.Closer      // what the play started besides
	err        error
}

func newStage(ctx context.Context, lab *Lab, subject Subject, ttl time.Duration) *Stage {
	s := &Stage{Subject: subject.lasting(ttl), ttl: ttl, ctx: ctx, lab: lab}
	s.fail(s.set())
	return s
}

// set makes the market and the servers that the subject's lock needs.
func (s *Stage) set() (err error) {
	s.cast = casting{
		Subject: s.Subject.String(), Prefix: s.lab.prefix(), Accounts: accounts, Market: at(s.lab.redis.Target),
	}
	if s.keys, err = market.NewKeys(s.cast.Prefix); err != nil {
		return err
	}
	if s.conn, err = s.lab.redis.Dial(s.ctx); err != nil {
		return err
	}
	opening := market.Opening{Accounts: accounts, Funds: funds, Strategy: s.cast.Subject}
	if err := market.Seed(s.ctx, s.conn.Client, s.keys, opening); err != nil {
		return err
	}
	if s.first, err = market.Mint(s.ctx, s.conn.Client, s.keys, seller); err != nil {
		return err
	}
	_, err = s.conn.TxPipelined(s.ctx, func(p redis.Pipeliner) error {
		for item := s.first; item < s.first+offered; item++ {
			p.SRem(s.ctx, s.keys.Inventory(seller), int64(item))
			p.ZAdd(s.ctx, s.keys.Market(), redis.Z{Score: price, Member: market.Member(item, seller)})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the first items: %w", err)
	}
	if s.before, err = market.ReadSnapshot(s.ctx, s.conn.Client, s.keys, accounts); err != nil {
		return err
	}
	return s.provide()
}

func (s *Stage) provide() error {
	need := s.need()
	if need != lock.NeedsMasters {
		return s.lab.provide(s.ctx, need, &s.cast)
	}
	m, err := masters.Start(s.ctx, 5)
	if err != nil {
		return err
	}
	s.masters = m
	s.own(m)
	for _, t := range m.Targets() {
		s.cast.Masters = append(s.cast.Masters, at(t))
	}
	return nil
}

// need is what the subject's lock needs besides Redis.
func (s *Stage) need() lock.Need {
	if s.Subject.Lock == nil {
		return lock.NeedsNothing
	}
	return s.Subject.Lock.Needs
}

// own closes something with the stage.
func (s *Stage) own(c io.Closer) { s.closers = append(s.closers, c) }

// fail notes the stage's first failure.
func (s *Stage) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *Stage) failed() bool { return s.err != nil }

// item is the i-th listed item, from 0.
func (s *Stage) item(i int) market.ItemID { return s.first + market.ItemID(i) }

// unlisted is an item that the seller has not listed.
func (s *Stage) unlisted() market.Listing {
	return market.Listing{Item: s.first + offered, Seller: seller, Price: price}
}

// actor starts a client with an account of its own, which is ready when this returns.
func (s *Stage) actor(name string) *Actor {
	a := &Actor{stage: s, name: name, dead: true}
	if s.failed() {
		return a
	}
	account := seller + 1 + market.UserID(len(s.actors))
	cast := s.cast
	var line *wire.Proxy
	if !s.Subject.Steps {
		line = s.proxy(cast.Market)
		cast.Market = addressed(line)
	}
	started, err := startActor(s, name, account, cast)
	if err != nil {
		s.fail(fmt.Errorf("start client %s: %w", name, err))
		return a
	}
	started.line = line
	s.actors = append(s.actors, started)
	if e, ok := started.next(patience); !s.failed() && (!ok || !e.Ready) {
		s.fail(fmt.Errorf("client %s did not open %s in %s", name, s.Subject.Name, patience))
	}
	return started
}

// pass lets time pass.
func (s *Stage) pass(d time.Duration) {
	if s.failed() {
		return
	}
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		s.fail(s.ctx.Err())
	}
}

// endless is for how long a lock must be stuck before it is called stuck for good.
func (s *Stage) endless() time.Duration { return 3*s.ttl + s.ttl/2 }

// lasting is endless for a lock whose holder lives: one whose renewals are counted may go on for a few TTLs more.
func (s *Stage) lasting() time.Duration {
	if hasParam(s.Subject, "renewals") {
		return s.endless() + 3*s.ttl
	}
	return s.endless()
}

// waited is how long somebody must have waited to be called stuck, where the whole of a lease was left.
func (s *Stage) waited() time.Duration { return s.ttl / 2 }

// prompt fails the stage as late if more time has passed than a lease allows for what was done in it.
func (s *Stage) prompt(since time.Time) {
	if time.Since(since) > s.ttl*3/4 {
		s.fail(errLate)
	}
}

// dismiss ends all clients. What they were still at is of unknown outcome.
func (s *Stage) dismiss() {
	for _, a := range s.actors {
		a.kill()
	}
}

// close ends everything and returns the stage's failure.
func (s *Stage) close() error {
	s.dismiss()
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.fail(s.closers[i].Close())
	}
	if s.conn != nil {
		s.fail(s.conn.Close())
	}
	return s.err
}
