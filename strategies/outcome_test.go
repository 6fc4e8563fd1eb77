package strategies_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// unknown checks that nobody can tell from an error whether the operation was applied.
func (g *fixture) unknown(err error) {
	g.Helper()
	if err == nil || market.Refused(err) {
		g.Errorf("the operation returns %v; want an unknown outcome", err)
	}
}

// A write, or only the reply to it, is lost. The audit settles what became of it.
func TestLostWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose  func(p *testkit.Proxy, command string)
		lists bool
		made  int64
	}{
		"reply to a purchase": {lose: (*testkit.Proxy).LoseReply, made: 1},
		"reply to a listing":  {lose: (*testkit.Proxy).LoseReply, made: 1, lists: true},
		"purchase":            {lose: (*testkit.Proxy).LoseCommand},
	} {
		t.Run(name, func(t *testing.T) {
			specs := slices.Concat(protecting(), scripted, fusedSpecs)
			eachSpec(t, false, specs, func(g *fixture, spec string) {
				proxy := testkit.StartProxy(g, g.server)
				exec := g.traffic(spec).exec()
				steps := once(step.BeforeWrite, func() {
					c.lose(proxy, exec)
				})
				w := g.open(spec, proxy.Server(), observing(steps))

				if c.lists {
					_, err := g.worker(spec, nil).list(g.listing(1)) // the server knows the script from here on
					g.must(err)
					_, err = w.list(g.listing(0))
					g.unknown(err)
				} else {
					order := g.offer(0)
					_, err := w.purchase(order)
					g.unknown(err)
					if paid := 100 - g.funds(buyer); paid != c.made*price {
						g.Errorf("the buyer paid %d coins, want %d purchases", paid, c.made)
					}
				}

				g.sound(c.made, 1-c.made)
				g.noLocks(spec)

				_, err := w.purchase(g.offer(2))
				if errors.Is(err, market.ErrNotSent) || c.made == 0 && err != nil {
					g.Errorf("the next purchase on a new connection: %v", err)
				}
			})
		})
	}
}

// A holder that has registered its fence, and does not know it, writes nothing.
func TestConnectionCutWhileReadingIsNotSent(t *testing.T) {
	specs := slices.Concat(everyStrategy(), scripted, fusedSpecs)
	eachSpec(t, false, specs, func(g *fixture, spec string) {
		if spec == "claim" {
			return // what it sends once it has acquired an item is no reading
		}
		sends := g.traffic(spec)
		order := g.offer(0)
		read := sends.read()
		if read == "" {
			return // it reads and writes by one command
		}

		proxy := testkit.StartProxy(g, g.server)
		lose := func() { proxy.LoseReply(read) }
		w := g.open(spec, proxy.Server(), observing(once(step.Acquired, lose)))
		if sends.reading() != step.Acquired {
			lose()
		}

		if _, err := w.purchase(order); !errors.Is(err, market.ErrNotSent) {
			g.Errorf("purchase: %v, want %v", err, market.ErrNotSent)
		}
		g.sound(0, 0)
		g.noLocks(spec)

		if _, err := w.purchase(order); err != nil {
			g.Errorf("the next purchase on a new connection: %v", err)
		}
	})
}

func TestCancelledBeforeAWriteIsNotSent(t *testing.T) {
	specs := slices.Concat(everyStrategy(), scripted, fusedSpecs)
	eachSpec(t, false, specs, func(g *fixture, spec string) {
		order := g.offer(0)
		ctx, cancel := context.WithCancel(g.ctx)
		w := g.worker(spec, once(step.BeforeWrite, cancel))
		_, err := w.purchaser.Purchase(ctx, order)
		if !errors.Is(err, market.ErrNotSent) || !errors.Is(err, context.Canceled) {
			g.Errorf("purchase: %v, want %v because of %v", err, market.ErrNotSent, context.Canceled)
		}
		g.sound(0, 0)
		g.noLocks(spec)
	})
}

func (g *fixture) snapshot() market.Snapshot {
	g.Helper()
	s, err := market.ReadSnapshot(g.ctx, g.conn, g.keys, g.opening.Accounts)
	g.must(err)
	return s
}

// unchanged checks that nothing but locks differs from before.
func (g *fixture) unchanged(before market.Snapshot) {
	g.Helper()
	after := g.snapshot()
	if !maps.Equal(after.Funds, before.Funds) || !maps.Equal(after.Listings, before.Listings) ||
		!slices.Equal(g.owned(after), g.owned(before)) {
		g.Errorf("the market has changed: funds %v, listings %v", after.Funds, after.Listings)
	}
}

func (g *fixture) owned(s market.Snapshot) []market.ItemID {
	return slices.Sorted(maps.Keys(s.Inventory[buyer]))
}

// restricted is the server as seen by a user who may not run some command.
func restricted(g *fixture, without string) *backend.Server {
	g.Helper()
	allBut := []any{"acl", "setuser", "clerk", "on", ">secret", "~*", "&*", "+@all", "-" + without}
	g.must(g.conn.Do(g.ctx, allBut...).Err())
	target := g.server.Target
	target.Username, target.Password = "clerk", "secret"
	return backend.NewServer(g.server.Name, target, "", nil)
}

func TestMissingPermissionIsRejected(t *testing.T) {
	eachSpec(t, true, append(everyStrategy(), fusedSpecs...), func(g *fixture, spec string) {
		denied := g.traffic(spec).write()[0] // hset, evalsha, multi
		if denied == "multi" {
			denied = "zrem"
		}
		g.rejects(spec, denied)
		g.noLocks(spec)
	})
}

func TestScriptWithoutPermissionForItsFirstWriteIsRejected(t *testing.T) {
	eachSpec(t, true, scripted, func(g *fixture, spec string) {
		g.rejects(spec, "hincrby")
	})
}

// rejects checks that a purchase without permission for a command is refused,
// and that nothing was written.
func (g *fixture) rejects(spec, denied string) {
	g.Helper()
	order := g.offer(0)
	before := g.snapshot()
	_, err := g.open(spec, restricted(g, denied), strategies.Env{}).purchase(order)
	// A script's error is its own.
	permission := redis.IsPermissionError(err) || slices.Contains(scripted, spec)
	if !errors.Is(err, market.ErrRejected) || !permission {
		g.Errorf("purchase: %v, want %v because of a missing permission", err, market.ErrRejected)
	}
	g.unchanged(before)
	g.sound(0, 0)
}

// A script that fails midway leaves what it has written: the item is bought and on the
// market. EXEC would have refused all of it.
func TestScriptWithoutPermissionForItsLastWriteIsUnknown(t *testing.T) {
	eachSpec(t, true, scripted, func(g *fixture, spec string) {
		_, err := g.open(spec, restricted(g, "zrem"), strategies.Env{}).purchase(g.offer(0))
		g.unknown(err)
		if v := g.audit(); v.ItemProblems != 1 {
			g.Errorf("audit: %+v; want an item in two places", v)
		}
	})
}

// The server runs out of memory between the decision and the write. The locks stay: a
// full server refuses to queue their DEL (see the test of setnx).
func TestFullMemoryIsRejected(t *testing.T) {
	specs := slices.Concat(everyStrategy(), scripted, fusedSpecs)
	eachSpec(t, true, specs, func(g *fixture, spec string) {
		if spec == "claim" {
			return // it writes before it can pay: see TestClaimLosesTheItemOfAClientThatDies
		}

		order := g.offer(0)
		before := g.snapshot()
		full := func() {
			g.must(g.conn.ConfigSet(g.ctx, "maxmemory", "1").Err())
		}
		_, err := g.worker(spec, once(step.BeforeWrite, full)).purchase(order)
		g.must(g.conn.ConfigSet(context.WithoutCancel(g.ctx), "maxmemory", "0").Err())

		if !errors.Is(err, market.ErrRejected) || !redis.IsOOMError(err) {
			g.Errorf("purchase: %v, want %v because of OOM", err, market.ErrRejected)
		}
		g.unchanged(before)
		g.sound(0, 0)
	})
}

// A market that cannot be read is refused before anybody registers.
func TestUnreadableMarketIsRejected(t *testing.T) {
	specs := slices.Concat(everyStrategy(), scripted, fusedSpecs)
	eachSpec(t, false, specs, func(g *fixture, spec string) {
		g.must(g.conn.Set(g.ctx, g.keys.Market(), "not a sorted set", 0).Err())
		order := market.Order{Item: g.first, Seller: seller, Buyer: buyer, Price: price}
		if _, err := g.worker(spec, nil).purchase(order); !errors.Is(err, market.ErrRejected) {
			g.Errorf("purchase: %v, want %v", err, market.ErrRejected)
		}
		if n := g.conn.Exists(g.ctx, g.keys.Fence("market"), g.keys.Fence("1")).Val(); n != 0 {
			g.Errorf("%d fences are registered", n)
		}
	})
}

// sendsTwice makes a client send the scripts that write again after their replies
// were lost, as libraries do unless they are told not to. It is that worker's
// observer and its connection's hook.
type sendsTwice struct{ traffic }

func (r *sendsTwice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && r.after == step.BeforeWrite {
			return next(ctx, cmd)
		}
		return err
	}
}

// A script that is sent again pays twice, unless it keeps the outcome of the
// first time: one for each worker.
func TestScriptThatIsSentTwice(t *testing.T) {
	eachCase(t, map[string]bool{
		"fine:fencing=off": false, "fine:fenced:fencing=on": false, "fine:fencing=token": false,
		"fine:fencing=off:idempotent=on": true, "fine:fenced:fencing=on:idempotent=on": true,
		"fine-wallet:fencing=token:idempotent=on": true, "lua:idempotent=on": true,
	}, func(g *fixture, spec string, once bool) {
		g.traffic(spec) // the server knows the scripts from here on
		twice := &sendsTwice{traffic{sent: map[step.Name][][]string{}}}
		w := g.open(spec, g.server, observing(twice.observe), twice)
		order := market.Order{Item: g.first, Seller: seller, Buyer: buyer, Price: price}

		_, err := w.list(g.listing(0))
		g.must(err)
		_, err = w.purchase(order)
		g.must(err)

		if paid := 100 - g.funds(buyer); (paid == price) != once {
			g.Errorf("the buyer paid %d coins of %d", paid, price)
		}
		if !once {
			return
		}

		g.sound(0, 0)
		if records := g.conn.HLen(g.ctx, g.keys.Outcomes()).Val(); records != 2 {
			g.Errorf("two workers left %d records", records)
		}
	})
}

// Of a pipeline that is cut in the middle a part is applied: the buyer has paid,
// and the item is still for sale.
func TestPipelineThatIsCutIsAppliedInPart(t *testing.T) {
	eachSpec(t, false, []string{"fine:write=pipeline"}, func(g *fixture, spec string) {
		order := g.offer(0)
		proxy := testkit.StartProxy(g, g.server)
		cut := func() { proxy.LoseCommand("sadd") }
		w := g.open(spec, proxy.Server(), observing(once(step.BeforeWrite, cut)))
		_, err := w.purchase(order)
		g.unknown(err)

		listings := g.snapshot().Listings
		_, listed := listings[market.Member(order.Item, seller)]
		if !listed || g.funds(buyer) != 100-price {
			g.Errorf("the buyer has %d coins, and these items are listed: %v", g.funds(buyer), listings)
		}

		if v := g.audit(); v.OK() {
			g.Error("the audit finds nothing")
		}
		g.noLocks(spec)
	})
}

// A pipeline of which each command was refused is not applied; one of which the
// last was is applied in part.
func TestPipelineThatIsRefused(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	const spec = "fine:write=pipeline"
	g := newFixture(t, s)
	order, user := g.offer(0), restricted(g, "hincrby")
	before := g.snapshot()
	forbid := func() {
		g.must(g.conn.Do(g.ctx, "acl", "setuser", "clerk", "-sadd", "-zrem").Err())
	}
	_, err := g.open(spec, user, observing(once(step.BeforeWrite, forbid))).purchase(order)
	if !errors.Is(err, market.ErrRejected) {
		g.Errorf("purchase: %v, want %v", err, market.ErrRejected)
	}
	g.unchanged(before)
	g.sound(0, 0)

	g = newFixture(t, s)
	_, err = g.open(spec, restricted(g, "zrem"), strategies.Env{}).purchase(g.offer(0))
	g.unknown(err)
	if v := g.audit(); v.ItemProblems != 1 {
		g.Errorf("audit: %+v; want an item in two places", v)
	}
}

// payOnce pays once for as long as the record of the payment lives: both are
// written by one script.
var payOnce = redis.NewScript(`
if redis.call('SET', KEYS[1], 'paid', 'NX', 'PX', ARGV[1]) then
	redis.call('DECRBY', KEYS[2], ARGV[2])
end
return redis.call('GET', KEYS[2])`)

// A record with an expiry: the library sends again 300 ms after it has lost a reply. That
// pays once if the record still lives then, and twice, with no error, if it has expired:
// it has to live longer than the last copy may be late.
func TestIdempotencyRecordThatExpires(t *testing.T) {
	t.Parallel()
	const again = 300 * time.Millisecond
	for _, c := range []struct{ lives, paid int }{{lives: 60_000, paid: 10}, {lives: 50, paid: 20}} {
		t.Run(fmt.Sprint(c.lives, " ms"), func(t *testing.T) {
			t.Parallel()
			s := testkit.Local(t)
			direct := testkit.Dial(t, s)
			direct.Set(t.Context(), "coins", 100, 0)
			payOnce.Load(t.Context(), direct)

			proxy := testkit.StartProxy(t, s)
			target := proxy.Server().Target
			rdb := redis.NewClient(&redis.Options{
				Network: target.Network, Addr: target.Addr, Password: target.Password,
				MinRetryBackoff: again, MaxRetryBackoff: again,
			})
			defer rdb.Close()

			proxy.LoseReply("evalsha")
			left, err := payOnce.EvalSha(t.Context(), rdb, []string{"record", "coins"}, c.lives, 10).Int()
			t.Logf("a record of %d ms, sent again after %s: %d coins paid, %v",
				c.lives, again, 100-left, err)
			if err != nil || 100-left != c.paid {
				t.Errorf("%d coins are left, %v; want %d paid", left, err, c.paid)
			}
		})
	}
}
