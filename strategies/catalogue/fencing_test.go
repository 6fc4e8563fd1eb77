package catalogue_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// A holder has checked its lease for the last time and its write is on its way when its lock goes to someone else:
// ZooKeeper and etcd have lost the holder's session, fenced has expired. Without fences the item is sold twice.
func TestWriteOnItsWayWhenTheLockIsLost(t *testing.T) {
	for lockName, start := range fencedLocks {
		t.Run(lockName, func(t *testing.T) {
			t.Parallel()
			servers, lose := start(t)
			for fencing, want := range map[string]error{"off": nil, "on": market.ErrStale} {
				for order, writesFirst := range map[string]bool{"former writes last": false, "former writes first": true} {
					t.Run("fencing="+fencing+"/"+order, func(t *testing.T) {
						t.Parallel()
						f := newFixture(t, servers, lose)
						former, onItsWay := f.paused("coarse:" + lockName + ":ttl=1s:fencing=" + fencing)
						spec := "coarse:" + lockName + ":fencing=" + fencing
						f.takeover(spec, former, onItsWay, writesFirst, want)
						f.audited(want != nil)
					})
				}
			}
		})
	}
}

// fencedLocks starts the servers of each lock that has fences. What it returns with them gives one worker servers of
// its own, and a way to make it lose its lock.
var fencedLocks = map[string]func(t *testing.T) (lock.Servers, loser){
	"fenced": func(*testing.T) (lock.Servers, loser) {
		return lock.Servers{}, func(f *fixture) (lock.Servers, func()) {
			return lock.Servers{}, func() { f.must(f.conn.Del(f.ctx, f.keys.Lock("market")).Err()) }
		}
	},
	"zookeeper": func(t *testing.T) (lock.Servers, loser) {
		addrs := testkit.ZooKeeper(t, 1).Addrs()
		return lock.Servers{ZooKeeper: addrs}, func(f *fixture) (lock.Servers, func()) {
			p := testkit.StartProxies(f, addrs[:1])
			return lock.Servers{ZooKeeper: p.Addrs()}, p.Disconnect
		}
	},
	"etcd": func(t *testing.T) (lock.Servers, loser) {
		addrs := testkit.Etcd(t, 1).Addrs()
		return lock.Servers{Etcd: addrs}, func(f *fixture) (lock.Servers, func()) {
			p := testkit.StartProxies(f, addrs[:1])
			return lock.Servers{Etcd: p.Addrs()}, p.Disconnect
		}
	},
}

type loser func(*fixture) (lock.Servers, func())

// fixture is a market of three accounts, in which one item is offered to two buyers.
type fixture struct {
	testing.TB
	ctx     context.Context
	server  *backend.Server
	conn    *backend.Conn
	keys    market.Keys
	opening market.Opening
	order   market.Order
	ledgers []*market.Ledger
	servers lock.Servers
	loser   loser
	lose    func() // makes the paused holder lose its lock
}

func newFixture(t *testing.T, servers lock.Servers, lose loser) *fixture {
	s := testkit.Embedded(t)
	f := &fixture{
		TB: t, ctx: t.Context(), server: s, conn: testkit.Dial(t, s), keys: testkit.Keys(t),
		opening: market.Opening{Accounts: 3, Funds: 100}, servers: servers, loser: lose,
	}
	f.must(market.Seed(f.ctx, f.conn, f.keys, f.opening))
	item, err := market.Mint(f.ctx, f.conn, f.keys, 1)
	f.must(err)
	minter := market.NewLedger(f.opening.Accounts)
	minter.Minted(item, 1, nil)
	f.ledgers = append(f.ledgers, minter)
	f.order = market.Order{Item: item, Seller: 1, Buyer: 2, Price: 80}
	l := market.Listing{Item: item, Seller: 1, Price: f.order.Price}
	_, err = f.open("watch", strategies.Env{}).List(f.ctx, l)
	minter.Listed(l, err)
	f.must(err)
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// open opens a Purchaser with a connection of its own, which may have a hook.
func (f *fixture) open(text string, env strategies.Env, hooks ...redis.Hook) market.Purchaser {
	f.Helper()
	spec, err := catalogue.Full().Parse(text)
	f.must(err)
	env.Redis, env.Keys = testkit.Dial(f, f.server).Client, f.keys
	for _, h := range hooks {
		env.Redis.AddHook(h)
	}
	p, closer, err := spec.Open(env)
	f.must(err)
	f.Cleanup(func() {
		if err := closer.Close(); err != nil {
			f.Errorf("closing %s: %v", spec, err)
		}
	})
	return p
}

// start makes an order in a goroutine of its own.
func (f *fixture) start(p market.Purchaser, o market.Order) <-chan error {
	ledger, done := market.NewLedger(f.opening.Accounts), make(chan error, 1)
	f.ledgers = append(f.ledgers, ledger)
	go func() {
		_, err := p.Purchase(f.ctx, o)
		ledger.Purchased(o, err)
		done <- err
	}()
	return done
}

// comes waits until an order is held at the gate.
func (f *fixture) comes(gate *step.Gate, done <-chan error) {
	f.Helper()
	f.Cleanup(gate.Open)
	select {
	case <-gate.Reached():
	case err := <-done:
		f.Fatalf("the order did not come to the gate: %v", err)
	}
}

// paused starts an order and returns when its write is held after the last check of its lease.
func (f *fixture) paused(spec string) (done <-chan error, gate *step.Gate) {
	f.Helper()
	servers, lose := f.loser(f)
	f.lose = lose
	gate = step.Hold(step.BeforeWrite)
	pause := &pause{gate: gate}
	p := f.open(spec, strategies.Env{Servers: servers, Steps: pause.observe}, pause)
	done = f.start(p, f.order)
	f.comes(gate, done)
	return done, gate
}

// takeover has another holder buy the item, whose write comes before or after the former holder's.
func (f *fixture) takeover(spec string, former <-chan error, onItsWay *step.Gate, formerFirst bool, want error) {
	f.Helper()
	rival, gate := f.order, step.Hold(step.BeforeWrite)
	rival.Buyer = 3
	later := f.open(spec, strategies.Env{Servers: f.servers, Steps: gate.Observe})
	f.lose()
	bought := f.start(later, rival)
	f.comes(gate, bought)
	check := func(who string, gate *step.Gate, done <-chan error, want error) {
		f.Helper()
		gate.Open()
		if err := <-done; !errors.Is(err, want) {
			f.Errorf("the %s holder: %v, want %v", who, err, want)
		}
	}
	if formerFirst {
		check("former", onItsWay, former, want)
		check("later", gate, bought, nil)
		return
	}
	check("later", gate, bought, nil)
	check("former", onItsWay, former, want)
}

// audited checks that the audit finds nothing, or the item sold twice.
func (f *fixture) audited(sound bool) {
	f.Helper()
	v, err := market.Audit(f.ctx, f.conn, f.keys, f.opening, f.ledgers...)
	f.must(err)
	if v.OK() != sound || !sound && !strings.Contains(strings.Join(v.Problems, ""), "sold twice") {
		f.Errorf("audit: %+v; want it sound: %t, or else an item sold twice", v, sound)
	}
}

// pause holds the first command after the step BeforeWrite at the connection.
type pause struct {
	gate  *step.Gate
	armed bool // by the worker's own goroutine
}

func (p *pause) observe(_ context.Context, at step.Name) { p.armed = p.armed || at == step.BeforeWrite }

func (p *pause) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pause) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p *pause) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if p.armed {
			p.gate.Observe(ctx, step.BeforeWrite) // holds once
		}
		return next(ctx, cmd)
	}
}
