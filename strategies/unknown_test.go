package strategies_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// What becomes of the lock of a holder whose write has an unknown outcome: it stays
// unless the write is compared with it, it never expires, or the spec says otherwise.
func TestLockAfterAnUnknownWrite(t *testing.T) {
	eachCase(t, map[string]bool{ // true: it is left
		"fine:set-px": true, "coarse:set-px+watchdog": true,
		"fine:redisson": true, "fine:fenced:fencing=off": true,
		"fine:reentrant-local:renewals=4": true, "fine:setnx-expire": true,
		"fine": false, "fine:after-unknown=leave": true, "fine:set-px:after-unknown=release": false,
		"fine:set-px:fencing=token": false, "fine:fenced:fencing=on": false,
		"fine:set-px:write=fused": false,
	}, func(g *fixture, spec string, stays bool) {
		order := g.offer(0)
		proxy := testkit.StartProxy(g, g.server)
		write := "exec"
		if strings.Contains(spec, "fencing=") {
			write = "evalsha"
		}
		lose := func() {
			proxy.LoseReply(write)
		}
		w := g.open(spec, proxy.Server(), observing(once(step.BeforeWrite, lose)))
		_, err := w.purchase(order)
		g.unknown(err)

		left := g.locks(spec)
		if (len(left) > 0) != stays {
			g.Errorf("the locks %q are left, want any: %t", left, stays)
		}
		if len(left) > 0 {
			g.must(g.conn.Del(g.ctx, left...).Err())
		}

		next := g.offer(1)
		next.Buyer = buyer + 1
		if _, err := w.purchase(next); err != nil {
			g.Errorf("the next purchase: %v", err)
		}
		g.noLocks(spec)
	})
}

// A write of which not a byte has left is not of unknown outcome, and its holder
// releases: no connection could be made whose handshake was answered.
func TestWriteWithoutAConnectionIsNotSent(t *testing.T) {
	eachSpec(t, false, []string{"fine:set-px", "lua"}, func(g *fixture, spec string) {
		g.traffic(spec)
		order := g.offer(0)
		proxy := testkit.StartProxy(g, g.server)
		silent := once(step.BeforeWrite, func() {
			proxy.Cut()
			proxy.Partition()
		})

		steps := func(ctx context.Context, at step.Name) {
			if at == step.BeforeRelease {
				proxy.Heal()
			}
			silent(ctx, at)
		}

		w := g.open(spec, proxy.Server(), observing(steps))
		ctx, cancel := context.WithTimeout(g.ctx, time.Second)
		defer cancel()
		if _, err := w.purchaser.Purchase(ctx, order); !errors.Is(err, market.ErrNotSent) {
			g.Errorf("purchase: %v, want %v", err, market.ErrNotSent)
		}
		proxy.Heal() // lua releases nothing
		g.sound(0, 0)
		g.noLocks(spec)
	})
}

// With after-unknown=kill the outcome is known in the end, and the lock is free: also of
// a write that is late, which is not executed any more when it comes.
func TestKillSettlesAnUnknownWrite(t *testing.T) {
	const ownerless = "fine:set-ex-fixed:after-unknown=kill"
	t.Parallel()
	server := testkit.Local(t)

	hold := func(command string) func(*testkit.Proxy) func() {
		return func(p *testkit.Proxy) func() {
			return p.Hold(wire.Match{Command: command}).Open
		}
	}
	lose := func(p *testkit.Proxy) func() {
		p.LoseReply("exec")
		return func() {}
	}
	loseCommand := func(p *testkit.Proxy) func() {
		p.LoseCommand("exec")
		return func() {}
	}

	for spec, breaks := range map[string]func(p *testkit.Proxy) (late func()){
		"fine:set-px:after-unknown=kill":            lose,
		"coarse:after-unknown=kill":                 loseCommand,
		"fine-wallet:set-px:after-unknown=kill":     hold("exec"),
		"coarse:set-px+watchdog:after-unknown=kill": hold("multi"),
		ownerless: lose,
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			newFixture(t, server).settles(spec, breaks, spec != ownerless)
		})
	}
}

// settles checks what becomes of a purchase whose write breaks: a lock without an owner
// does not tell in the end whether it was held until then.
func (g *fixture) settles(spec string, breaks func(*testkit.Proxy) func(), owned bool) {
	order := g.offer(0)
	proxy := testkit.StartProxy(g, g.server)
	var late func()
	breaking := once(step.BeforeWrite, func() {
		late = breaks(proxy)
	})
	w := g.open(spec, proxy.Server(), observing(breaking))

	_, err := w.purchase(order)
	bought := len(g.owned(g.snapshot()))
	switch {
	case !owned:
		g.unknown(err)
	case err == nil && bought == 1:
	case errors.Is(err, market.ErrWithdrawn) && bought == 0:
	default:
		g.Errorf("purchase: %v, and the buyer owns %d items", err, bought)
	}

	g.noLocks(spec)
	late()

	next := g.offer(1)
	next.Buyer = buyer + 1
	if _, err := w.purchase(next); err != nil {
		g.Errorf("the next purchase: %v", err)
	}

	if n := len(g.owned(g.snapshot())); n != bought {
		g.Errorf("the buyer owned %d items, and owns %d after a late write", bought, n)
	}
}

// A spec that says what has no meaning is refused, and so is a server that
// cannot name connections.
func TestAfterUnknownIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"fine:set-px:fencing=token:after-unknown=release", "fine:set-px:write=fused:after-unknown=leave",
		"fine:write=pipeline:after-unknown=kill", "fine:set-px:fencing=off:after-unknown=kill",
	} {
		if _, err := strategies.Builtin().Parse(text); !errors.Is(err, strategies.ErrSpec) {
			t.Errorf("%s: %v, want %v", text, err, strategies.ErrSpec)
		}
	}

	s := testkit.Embedded(t)
	spec := testkit.Must(strategies.Builtin().Parse("fine:after-unknown=kill"))(t)
	err := spec.CheckServer(t.Context(), testkit.Dial(t, s).Client, testkit.Keys(t))
	if !errors.Is(err, process.ErrUnavailable) {
		t.Errorf("on %s: %v, want %v", s.Name, err, process.ErrUnavailable)
	}
}
