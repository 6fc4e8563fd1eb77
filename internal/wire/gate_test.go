package wire_test

import (
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/wire"
)

// gated has a client wait at a gate with what it does, and returns the request that
// waits, and what comes of it.
func (b bench) gated(do func(c *redisconn.Conn) error) (*wire.Held, <-chan error) {
	b.Helper()
	c := b.dial()
	arrived, done := make(chan *wire.Held, 9), make(chan error, 1)
	b.proxy.Gate(func(h *wire.Held) {
		arrived <- h
	})
	go func() {
		done <- do(c)
	}()
	return within(b, "a request at the gate", arrived), done
}

func TestGate(t *testing.T) {
	onEach(t, func(b bench) {
		incr := func(c *redisconn.Conn) error {
			return c.Incr(b.Context(), b.key).Err()
		}

		h, done := b.gated(incr)
		if want := [][]string{{"incr", b.key}}; !reflect.DeepEqual(h.Commands, want) {
			b.Errorf("%q waits, want %q", h.Commands, want)
		}
		b.proxy.Gate(nil)
		b.wantCount("a request that waits", 0)
		h.Open()
		within(b, "its reply", h.Answered())
		if err := within(b, "its client", done); err != nil || h.Reply() != "1" {
			b.Errorf("a request that was let go: %v, and the server said %q", err, h.Reply())
		}

		h, done = b.gated(incr)
		h.Lose()
		if err := within(b, "its client", done); err == nil {
			b.Error("the client got a reply that was lost")
		}
		b.proxy.Gate(nil)
		b.wantCount("a request whose reply was lost", 2)

		h, done = b.gated(incr)
		h.Drop()
		if err := within(b, "its client", done); err == nil {
			b.Error("the client got a reply to what was dropped")
		}
		b.proxy.Gate(nil)
		b.wantCount("a request that was dropped", 2)

		h, done = b.gated(incr)
		h.Delay()
		if err := within(b, "its client", done); err == nil {
			b.Error("the client got a reply to what is late")
		}
		b.proxy.Gate(nil)
		b.wantCount("a request that is late", 2)
		h.Open()
		within(b, "its reply", h.Answered())
		b.wantCount("a request that came late", 3)
	})
}

// A pipeline is one request, and so is a transaction, whose commands are not
// executed before EXEC.
func TestGateHoldsPipelinesAsOne(t *testing.T) {
	onEach(t, func(b bench) {
		two := func(p redis.Pipeliner) error {
			p.Incr(b.Context(), b.key)
			p.Incr(b.Context(), b.key)
			return nil
		}
		h, done := b.gated(func(c *redisconn.Conn) error {
			_, err := c.Pipelined(b.Context(), two)
			return err
		})
		b.proxy.Gate(nil)
		b.wantCount("a pipeline that waits", 0)
		h.Open()
		within(b, "its last reply", h.Answered())
		if err := within(b, "its client", done); err != nil || len(h.Commands) != 2 || h.Reply() != "2" {
			b.Errorf("a pipeline of 2: %v, %q, and the server said %q", err, h.Commands, h.Reply())
		}

		h, done = b.gated(func(c *redisconn.Conn) error {
			_, err := c.TxPipelined(b.Context(), two)
			return err
		})
		b.proxy.Gate(nil)
		b.wantCount("a transaction that waits", 2)
		h.Open()
		err := within(b, "its client", done)
		if err != nil || len(h.Commands) != 4 || h.Commands[3][0] != "exec" {
			b.Errorf("a transaction: %v, and %q waited, want MULTI to EXEC", err, h.Commands)
		}
		b.wantCount("a transaction that was let go", 4)
	})
}
