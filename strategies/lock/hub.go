package lock

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// freed is the message that a lock is free: it wakes one waiter of each process. Any other message is the token
	// of the one waiter that it is meant for.
	freed = "free"

	hubSilence = 3 * time.Second        // without a message for so long, the connection is asked whether it lives
	hubRetry   = 100 * time.Millisecond // between two attempts to connect
)

// hub is the one subscription of a process: it hands each message to the one waiter that it is meant for. It listens
// to a channel only while somebody waits there. Messages are hints. One that was lost costs a waiter the time that it
// had set itself, or less: whenever the subscription to a channel begins, anew after a broken connection too,
// everybody who waits there is told to look again.
type hub struct {
	dial   func(context.Context) (*redis.Client, error)
	ctx    context.Context // ends when the hub is closed
	cancel context.CancelFunc
	done   sync.WaitGroup

	changed chan struct{} // holds one value when what is wanted may have changed
	mu      sync.Mutex
	started bool
	seats   map[string][]*seat // of each channel, first come first
}

// openHub returns the hub of the worker's process, and what closes it if the worker is alone.
func openHub(env Env) (*hub, io.Closer, error) {
	create := func() (io.Closer, error) { return newHub(env.Dial), nil }
	if env.Process == nil {
		h := newHub(env.Dial)
		return h, h, nil
	}
	shared, err := env.Process.Share("subscription", create)
	if err != nil {
		return nil, nil, err
	}
	return shared.(*hub), nil, nil
}

func newHub(dial func(context.Context) (*redis.Client, error)) *hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &hub{dial: dial, ctx: ctx, cancel: cancel, changed: make(chan struct{}, 1), seats: map[string][]*seat{}}
}

// Close ends the subscription. No goroutine is left.
func (h *hub) Close() error {
	h.cancel()
	h.done.Wait()
	return nil
}

// run keeps a subscription going until the hub is closed. Its errors are nobody's: waiters look for themselves.
func (h *hub) run() {
	var rdb *redis.Client
	for h.ctx.Err() == nil {
		var err error
		if rdb == nil {
			rdb, err = h.dial(h.ctx)
		}
		if err == nil {
			h.session(rdb)
		}
		select {
		case <-time.After(hubRetry):
		case <-h.ctx.Done():
		}
	}
	if rdb != nil {
		rdb.Close()
	}
}

// tell hands out one message.
func (h *hub) tell(message any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := message.(type) {
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			for _, s := range h.seats[m.Channel] {
				s.wake()
			}
		}
	case *redis.Message:
		if m.Payload == freed {
			h.wakeOne(m.Channel)
			return
		}
		for _, s := range h.seats[m.Channel] {
			if s.token == m.Payload {
				s.wake()
			}
		}
	}
}

// wakeOne wakes the first at a channel who has not been woken yet.
func (h *hub) wakeOne(channel string) {
	for _, s := range h.seats[channel] {
		if s.wake() {
			return
		}
	}
}
