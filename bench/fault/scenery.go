package fault

import (
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend/masters"
	"github.com/marketsim/marketsim/market/backend/wire"
	"github.com/marketsim/marketsim/strategies/lock"
)

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
