package lock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/wire"
)

// subscribing completes the kind of a lock whose waiters are notified: a message
// tells them when to try again.
func subscribing(k Kind, begin newAcquisition) Kind {
	return withOwnParts(k, func(l *locker) (newAcquisition, error) {
		process := l.env.Process
		if process == nil { // the worker is alone in it
			process = &ProcessState{}
			l.closers = append(l.closers, process)
		}
		l.hub = Share(process, "subscription", func() *hub {
			return newHub(l.env.NewClient)
		})
		return begin, nil
	})
}

// notified waits for a message, for retryIn or for the time-out. It returns an error if
// there will be no messages.
func (l *locker) notified(ctx context.Context, w *waiter, retryIn time.Duration) error {
	w.listen()
	if err := locking.Sleep(ctx, min(retryIn, l.Left()), w.woken); err != nil {
		return err
	}
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return l.hub.refused
}

const (
	// freed is the message that a lock is free: it wakes one waiter of each process. Any
	// other is the token of a waiter.
	freed = "free"

	hubSilence = 3 * time.Second        // after so long without a message, the hub sends a PING
	hubRetry   = 100 * time.Millisecond // between two attempts to connect
)

// hub is the one subscription of a process. It passes each message to the waiter that it
// is meant for, and subscribes to a channel while somebody waits there. Whenever it
// subscribes (again), it wakes all waiters: messages are hints.
type hub struct {
	dial   func(context.Context) (*redis.Client, error)
	ctx    context.Context // ends when the hub is closed
	cancel context.CancelFunc
	start  sync.Once // of run
	done   sync.WaitGroup

	changed chan struct{} // holds one value when the set of wanted channels may have changed
	mu      sync.Mutex
	refused error                // why the server does not let it subscribe
	waiters map[string][]*waiter // of each channel, in order of arrival
}

func newHub(dial func(context.Context) (*redis.Client, error)) *hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &hub{
		dial:    dial,
		ctx:     ctx,
		cancel:  cancel,
		changed: make(chan struct{}, 1),
		waiters: map[string][]*waiter{},
	}
}

// Close ends the subscription. No goroutine remains.
func (h *hub) Close() error {
	h.cancel()
	h.done.Wait()
	return nil
}

// waiter is one worker at a channel. It joins before it tries to take the lock,
// so that it misses no message.
type waiter struct {
	hub            *hub
	channel, token string
	woken          chan struct{} // holds one value
	listens        bool          // guarded by hub.mu
}

// join adds a waiter. Messages come at once if another waiter already listens to
// the channel, else after listen.
func (h *hub) join(channel, token string) *waiter {
	w := &waiter{hub: h, channel: channel, token: token, woken: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[channel] = append(h.waiters[channel], w)
	return w
}

// listen makes the hub subscribe to the waiter's channel. If it was not subscribed,
// the waiter is woken once it is.
func (w *waiter) listen() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.listens {
		return
	}
	w.listens = true
	w.hub.start.Do(func() {
		w.hub.done.Go(w.hub.run)
	})
	wire.Signal(w.hub.changed)
}

// leave removes the waiter. If it did not take the lock, it wakes another one, because it
// may have got a message that would have woken that one.
func (w *waiter) leave(taken bool) {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()

	// Removed first, or it might wake itself.
	rest := slices.DeleteFunc(h.waiters[w.channel], func(other *waiter) bool {
		return other == w
	})
	h.waiters[w.channel] = rest
	if len(rest) == 0 {
		delete(h.waiters, w.channel)
		wire.Signal(h.changed)
	}

	if !taken {
		h.wakeOne(w.channel)
	}
}

// wakeOne wakes the first waiter at a channel that has not been woken yet.
func (h *hub) wakeOne(channel string) {
	for _, w := range h.waiters[channel] {
		if wire.Signal(w.woken) {
			return
		}
	}
}

// receive wakes the waiters that a message is for. The reply to a SUBSCRIBE wakes all at the
// channel, because the lock may have become free before.
func (h *hub) receive(message any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := message.(type) {
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			h.refused = nil
			for _, w := range h.waiters[m.Channel] {
				wire.Signal(w.woken)
			}
		}

	case *redis.Message:
		if m.Payload == freed {
			h.wakeOne(m.Channel)
			return
		}
		for _, w := range h.waiters[m.Channel] {
			if w.token == m.Payload {
				wire.Signal(w.woken)
			}
		}
	}
}

// refuse wakes everybody to return err.
func (h *hub) refuse(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = fmt.Errorf("subscribe: %w", err)
	for _, waiters := range h.waiters {
		for _, w := range waiters {
			wire.Signal(w.woken)
		}
	}
}

// run keeps a subscription until the hub is closed. Without messages, waiters
// try again by themselves.
func (h *hub) run() {
	client := background{dial: h.dial}
	defer client.Close()
	for h.ctx.Err() == nil {
		if rdb, err := client.connection(h.ctx); err == nil {
			h.session(rdb)
		}
		_ = locking.Sleep(h.ctx, hubRetry, nil) // if h ends, so does the loop
	}
}

// follow subscribes to the channels where somebody waits. Its end closes the
// subscription, which interrupts a read too.
func (h *hub) follow(ctx context.Context, subscription *redis.PubSub) {
	defer subscription.Close()
	subscribed := map[string]bool{}

	for {
		wanted, unwanted := h.difference(subscribed)
		if len(wanted) > 0 && subscription.Subscribe(ctx, wanted...) != nil {
			return
		}
		if len(unwanted) > 0 && subscription.Unsubscribe(ctx, unwanted...) != nil {
			return
		}

		select {
		case <-h.changed:
		case <-ctx.Done():
			return
		}
	}
}

// difference updates subscribed, and returns the channels to subscribe to and
// to unsubscribe from. A channel is subscribed to from the first waiter that listens until
// the last waiter has left. subscribed is ahead of the requests: one that fails ends follow,
// and the next session starts with an empty one.
func (h *hub) difference(subscribed map[string]bool) (wanted, unwanted []string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	listens := func(w *waiter) bool { return w.listens }
	for channel, waiters := range h.waiters {
		if !subscribed[channel] && slices.ContainsFunc(waiters, listens) {
			wanted = append(wanted, channel)
			subscribed[channel] = true
		}
	}

	for channel := range subscribed {
		if len(h.waiters[channel]) == 0 {
			unwanted = append(unwanted, channel)
			delete(subscribed, channel)
		}
	}
	return wanted, unwanted
}

// session passes on the messages of one connection until it breaks. After
// hubSilence it has to answer a PING.
func (h *hub) session(rdb *redis.Client) {
	// One goroutine reads, this one, and another subscribes and unsubscribes meanwhile.
	ctx, cancel := context.WithCancel(h.ctx)
	subscription := rdb.Subscribe(ctx)
	var writer sync.WaitGroup
	writer.Go(func() { h.follow(ctx, subscription) })
	defer writer.Wait()
	defer cancel() // before the wait: it ends follow

	for asked := false; ; {
		message, err := subscription.ReceiveTimeout(ctx, hubSilence)
		if _, denied := redisconn.Denied(err); denied {
			h.refuse(err)
			return
		}

		late, is := errors.AsType[net.Error](err)
		switch {
		case err == nil:
			asked = false
			h.receive(message)
		case ctx.Err() != nil || asked || !is || !late.Timeout():
			return
		default:
			if subscription.Ping(ctx) != nil {
				return
			}
			asked = true
		}
	}
}
