package lock

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// woken lists which waiters have been woken, and takes the message back.
func woken(waiters ...*waiter) (tokens string) {
	for _, s := range waiters {
		select {
		case <-s.woken:
			tokens += s.token
		default:
		}
	}
	return tokens
}

func TestHubWakesTheWaiterThatAMessageIsFor(t *testing.T) {
	h := newHub(nil)
	free := &redis.Message{Channel: "x", Payload: freed}
	a, b, c, other := h.join("x", "a"), h.join("x", "b"), h.join("x", "c"), h.join("y", "o")

	for _, test := range []struct {
		what    string
		message []any
		want    string
	}{
		{"a release", []any{free}, "a"},
		{"two releases", []any{free, free}, "ab"},
		{"a hand-over", []any{&redis.Message{Channel: "x", Payload: "b"}}, "b"},
		{"a hand-over to another process", []any{&redis.Message{Channel: "x", Payload: "z"}}, ""},
		{"a new subscription", []any{&redis.Subscription{Kind: "subscribe", Channel: "x"}}, "abc"},
		{"the end of one", []any{&redis.Subscription{Kind: "unsubscribe", Channel: "x"}}, ""},
	} {
		for _, m := range test.message {
			h.receive(m)
		}
		if got := woken(a, b, c, other); got != test.want {
			t.Errorf("%s woke %q, want %q", test.what, got, test.want)
		}
	}
}

// A waiter that was woken and gives up must not take the message with it.
func TestHubPassesAMessageOn(t *testing.T) {
	h := newHub(nil)
	a := h.join("x", "a")
	b := h.join("x", "b")
	c := h.join("x", "c")

	h.receive(&redis.Message{Channel: "x", Payload: freed})
	a.leave(false)
	if got := woken(b, c); got != "b" {
		t.Errorf("a woken waiter left and %q was woken, want b", got)
	}

	b.leave(true)
	if got := woken(c); got != "" {
		t.Errorf("a waiter took the lock and woke %q", got)
	}

	c.leave(false)
	if len(h.waiters) != 0 {
		t.Errorf("nobody waits, and there are waiters at %d channels", len(h.waiters))
	}
}

func TestHubListensOnlyWhereSomebodyWaits(t *testing.T) {
	h := newHub(func(context.Context) (*redis.Client, error) {
		return nil, errors.New("no server")
	})

	subscribed := map[string]bool{}
	check := func(what string, wanted, unwanted int) {
		t.Helper()
		if w, u := h.difference(subscribed); len(w) != wanted || len(u) != unwanted {
			t.Errorf("%s: subscribes to %v and unsubscribes from %v, want %d and %d",
				what, w, u, wanted, unwanted)
		}
	}

	a := h.join("x", "a")
	b := h.join("x", "b")
	check("nobody waits yet", 0, 0)
	a.listen()
	check("one waits", 1, 0)
	b.listen()
	check("another waits", 0, 0)
	a.leave(true)
	check("one has gone", 0, 0)
	b.leave(true)
	check("both have gone", 0, 1)

	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
