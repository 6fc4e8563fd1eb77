package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

const (
	// defaultPatience is Options.Patience where that is 0.
	defaultPatience = 3 * time.Second
	// healTimeout bounds healing, of which starting the server again takes the longest.
	healTimeout = 30 * time.Second
)

// LockServers are the servers that locks are on where that is not the market's, from 0.
type LockServers interface {
	Kill(i int) error                         // ends it as a crash would
	Restart(ctx context.Context, i int) error // starts it again, with what it has on disk, and returns when it serves
	Pause(i int) error                        // stops its process, until Resume
	Resume(i int) error
}

// nemesis strikes a setup, and the workers of one row on it, with the faults of a schedule.
type nemesis struct {
	*Setup
	Options
	child *remote              // where half of the workers work; nil: in this process
	hold  atomic.Pointer[hold] // who is to be held; nil: nobody

	mu        sync.Mutex
	struck    map[string]int64 // faults so far, by kind
	outlasted int64            // pauses of a holder after which its lease had surely ended
	begun     time.Time        // when the clock of times was zero
	times     []result.FaultTime
}

// hold is the pause of the first worker of a role that comes to the gate.
type hold struct {
	role bench.Role
	gate *step.Gate
}

func newNemesis(s *Setup, o Options) *nemesis {
	if o.OnFault == nil {
		o.OnFault = func(Fault) {}
	}
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	return &nemesis{Setup: s, Options: o, struck: map[string]int64{}}
}

// steps observes the steps of one worker. When nobody is to be held it costs one atomic read.
func (n *nemesis) steps(r bench.Role) step.Observer {
	return func(ctx context.Context, at step.Name) {
		if h := n.hold.Load(); h != nil && h.role == r {
			h.gate.Observe(ctx, at)
		}
	}
}

// counts are the faults that have struck, by kind.
func (n *nemesis) counts() map[string]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.struck)
}

func (n *nemesis) count(f Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.struck[string(f.Kind)]++
}

// begins sets the clock of the times of faults.
func (n *nemesis) begins(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun = at
}

// healed notes that a fault struck at a time and does so no more.
func (n *nemesis) healed(f Fault, struck time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.times = append(n.times, timeOf(string(f.Kind), n.begun, struck))
}

// timeOf is the time from one until now on a clock that begun says.
func timeOf(kind string, begun, from time.Time) result.FaultTime {
	return result.FaultTime{Kind: kind, Start: max(0, from.Sub(begun).Seconds()), End: time.Since(begun).Seconds()}
}

// allTimes are those at which faults struck and those between the rounds, in order.
func (n *nemesis) allTimes(between []result.FaultTime) []result.FaultTime {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := slices.Concat(between, n.times)
	slices.SortStableFunc(all, func(a, b result.FaultTime) int { return cmp.Compare(a.Start, b.Start) })
	return all[:min(len(all), result.MostTimes)]
}

// strikeRound lets the faults of a round strike, one after the other, and heals each. When it returns, early if ctx
// ends, nothing is broken. An error says what could not be broken, or not be healed.
func (n *nemesis) strikeRound(ctx context.Context, number int) error {
	round := n.Schedule[number]
	for _, f := range round.Faults {
		sleep(ctx, f.Wait)
		if ctx.Err() != nil {
			return nil
		}
		if err := n.strike(ctx, f); err != nil {
			return fmt.Errorf("fault %s: %w", f, err)
		}
	}
	sleep(ctx, round.Rest)
	if n.child != nil {
		return n.child.gone()
	}
	return nil
}

// strike breaks what the fault breaks, for as long as it lasts.
func (n *nemesis) strike(ctx context.Context, f Fault) error {
	switch f.Kind {
	case ClientPause:
		n.pauseClient(ctx, f)
		return nil
	case ProcessPause:
		return n.pauseProcess(ctx, f)
	}
	struck := time.Now()
	breaking, broken := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer broken()
	heal, err := n.damage(breaking, f, n.LockServers)
	if errors.Is(err, backend.ErrUnavailable) {
		return nil // this operating system cannot pause the server
	}
	if err == nil {
		n.OnFault(f)
		n.count(f)
		sleep(ctx, f.Length)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	if err == nil {
		defer n.healed(f, struck)
	}
	return errors.Join(err, heal(bounded))
}

// pauseClient holds the first worker that comes to a step.
func (n *nemesis) pauseClient(ctx context.Context, f Fault) {
	n.OnFault(f)
	h := &hold{bench.Buyer, step.Hold(f.Step)}
	if f.Seller {
		h.role = bench.Seller
	}
	n.hold.Store(h)
	defer h.gate.Open()
	defer n.hold.Store(nil)
	select {
	case <-h.gate.Reached():
		n.count(f)
		defer n.healed(f, time.Now())
		n.outlast(ctx, f, n.Expiry.Renewed)
	case <-time.After(n.Patience):
	case <-ctx.Done():
	}
}

// outlast waits for as long as the fault lasts, and counts it if a lease that nobody renews meanwhile has surely ended.
func (n *nemesis) outlast(ctx context.Context, f Fault, renewed bool) {
	start := time.Now()
	sleep(ctx, f.Length)
	if after := n.Expiry.After; !renewed && after > 0 && time.Since(start) > after {
		n.mu.Lock()
		n.outlasted++
		n.mu.Unlock()
	}
}

// pauseProcess stops the child when a buyer in it has come to a step. The buyer is let go before the child runs on: it
// and what renews its lock find out at the same time how late it is.
func (n *nemesis) pauseProcess(ctx context.Context, f Fault) (err error) {
	if n.child == nil {
		return nil
	}
	n.OnFault(f)
	reached, free, err := n.child.hold(f.Step)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, free()) }()
	select {
	case _, ok := <-reached:
		if !ok {
			return n.child.failure()
		}
	case <-time.After(n.Patience):
		return nil
	case <-ctx.Done():
		return nil
	}
	if err := n.child.process.Pause(); err != nil {
		return err
	}
	n.count(f)
	defer n.healed(f, time.Now())
	n.outlast(ctx, f, false)
	return errors.Join(free(), n.child.process.Resume())
}

// damage breaks what f breaks. The heal it returns repairs that, and is to be called whatever the error.
func (s *Setup) damage(ctx context.Context, f Fault, locks LockServers) (heal func(context.Context) error, err error) {
	switch f.Kind {
	case Refuse:
		return func(context.Context) error { return start(s.struckProxies(f)) }, stop(s.struckProxies(f))
	case ServerKill:
		return s.restartServer, s.killServer()
	case LockKill:
		return func(ctx context.Context) error { return locks.Restart(ctx, f.Server-1) }, locks.Kill(f.Server - 1)
	case LockPause:
		return func(context.Context) error { return locks.Resume(f.Server - 1) }, locks.Pause(f.Server - 1)
	case ServerPause:
		return func(context.Context) error { return s.server.Resume() }, s.server.Pause()
	case SlotMove:
		return s.moveSlot(ctx)
	case MasterKill:
		return s.loseMaster(ctx)
	}
	for _, p := range s.struckProxies(f) {
		f.impair(p)
	}
	return func(context.Context) error {
		for _, p := range s.struckProxies(f) {
			p.Heal()
		}
		return nil
	}, nil
}

// killServer kills the server. Until it serves again the proxies let nothing pass: its port belongs to nobody, and once
// another program's server that had got it answered the workers.
func (s *Setup) killServer() error {
	for _, p := range s.proxies {
		p.Disconnect()
	}
	return s.server.Kill()
}

func (s *Setup) restartServer(ctx context.Context) error {
	err := s.server.Restart(ctx)
	for _, p := range s.proxies {
		p.Heal()
	}
	return err
}

// struckProxies are the proxies that a fault strikes.
func (s *Setup) struckProxies(f Fault) []*wire.Proxy {
	if f.Line == 0 {
		return s.proxies
	}
	return s.proxies[f.Line-1 : f.Line]
}

// impair does to the connections of a proxy what the fault says, until they are healed.
func (f Fault) impair(p *wire.Proxy) {
	direction := wire.Down
	if f.Up {
		direction = wire.Up
	}
	switch f.Kind {
	case Latency:
		late := wire.Fault{Latency: f.Delay, Jitter: f.Jitter}
		p.SetFault(wire.Up, late)
		p.SetFault(wire.Down, late)
	case Partition:
		p.SetFault(direction, wire.Fault{Hold: true})
	case BlackHole:
		p.SetFault(direction, wire.Fault{Drop: true})
	case Reset:
		p.SetFault(wire.Up, wire.Fault{Reset: true})
	case Cut:
		p.SetFault(wire.Up, wire.Fault{End: true, After: f.Bytes})
	case LostReply:
		p.SetFault(wire.Down, wire.Fault{End: true, After: f.Bytes})
	}
}
