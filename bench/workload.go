package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/alarm"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

// Limits of a workload. A purchase makes several round trips, each of which has to end before its connection gives up.
const (
	MaxHold = 10 * time.Second
	MaxRTT  = time.Second
)

// hold is how long each operation does other work between its reads and its write.
func (c Config) hold() time.Duration { return milliseconds(c.HoldMS) }

// rtt is by how much each reply to a worker is delayed.
func (c Config) rtt() time.Duration { return milliseconds(c.RTTMS) }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// checkWorkload returns ErrConfig, wrapped, for a workload that cannot be run, or not with the rest of the configuration.
func (c Config) checkWorkload() error {
	if err := c.checkStock(); err != nil {
		return err
	}
	switch {
	case c.Hot < 0 || c.Hot > MaxHot:
		return fmt.Errorf("%w: %d hot items: want 0 to %d", ErrConfig, c.Hot, MaxHot)
	case !(c.HoldMS >= 0 && c.HoldMS <= MaxHold.Seconds()*1000):
		return fmt.Errorf("%w: hold of %v ms: want 0 to %s", ErrConfig, c.HoldMS, MaxHold)
	case !(c.RTTMS >= 0 && c.RTTMS <= MaxRTT.Seconds()*1000):
		return fmt.Errorf("%w: rtt of %v ms: want 0 to %s", ErrConfig, c.RTTMS, MaxRTT)
	case c.RTTMS > 0 && !c.inRedis():
		return fmt.Errorf("%w: rtt delays replies of Redis, and the lock of %s is kept elsewhere: it would have no network "+
			"to cross", ErrConfig, c.Subject)
	case c.Hot == 0:
		return nil
	case c.Mix.Sellers != 0:
		return fmt.Errorf("%w: mix %s: nobody but buyers sells where %d hot items circulate: want 0 sellers", ErrConfig,
			c.Mix, c.Hot)
	case c.Rate != 0:
		return fmt.Errorf("%w: %d hot items at a rate: buyers who list again are not free when an order is due", ErrConfig,
			c.Hot)
	case c.Funds < LeastHotFunds:
		return fmt.Errorf("%w: funds %d: want %d or more, or there may be hot items that nobody can pay for", ErrConfig,
			c.Funds, LeastHotFunds)
	}
	return nil
}

// inRedis reports whether the subject's lock, if it has one, is kept in Redis.
func (c Config) inRedis() bool {
	locking, ok := c.Subject.(interface{ Lock() (lock.Kind, bool) })
	if !ok {
		return true
	}
	kind, ok := locking.Lock()
	return !ok || kind.Needs.InRedis()
}

// grace is how long an operation in flight may go on after the end of a row: longer than any strategy's time-out, so that
// none is cut short by the driver. What it does after it has waited takes longer with other work and a slow network.
func (c Config) grace() time.Duration { return leastGrace + c.hold() + lastTrips*c.rtt() }

const (
	leastGrace = 12 * time.Second
	lastTrips  = 10 // round trips of an operation after its last wait, and more
)

// delayed returns a context under which connections have the row's delay.
func (c Config) delayed(ctx context.Context) context.Context { return backend.Delaying(ctx, c.rtt()) }

// lockServers are the servers of the row's locks, with its delay.
func (c Config) lockServers() lock.Servers {
	servers := c.Servers
	if c.RTTMS > 0 {
		servers.Masters = nil
		for _, dial := range c.Servers.Masters {
			servers.Masters = append(servers.Masters, func(ctx context.Context) (*redis.Client, error) {
				return dial(c.delayed(ctx))
			})
		}
	}
	return servers
}

// observe makes the observer of the worker's steps; nil: nobody observes them.
func (w *Worker) observe() step.Observer {
	var steps step.Observer
	if w.market.steps != nil {
		steps = w.market.steps(w.role)
	}
	if w.market.HoldMS == 0 {
		return steps
	}
	w.work = &otherWork{lasts: w.market.hold(), alarm: alarm.New(), steps: steps}
	return w.work.observe
}

// otherWork is what each operation of a worker does between its reads and its write, besides what the strategy does. It
// takes time and no core, as a call of another service does. It allocates nothing.
type otherWork struct {
	lasts time.Duration
	alarm alarm.Alarm
	steps step.Observer // may be nil
}

func (o *otherWork) observe(ctx context.Context, at step.Name) {
	if at == step.BeforeWrite {
		for until := time.Now().Add(o.lasts); ctx.Err() == nil; {
			left := time.Until(until)
			if left <= 0 {
				break
			}
			o.alarm.Sleep(left, ctx.Done())
		}
	}
	o.steps.At(ctx, at)
}

// endWork frees what observe has made, if anything.
func (w *Worker) endWork() {
	if w.work != nil {
		w.work.alarm.Close()
		w.work = nil
	}
}
