package lock_test

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/markettest/wire"
	"github.com/marketsim/marketsim/strategies/lock"
)

// An acquisition whose reply is lost gives back what it has taken. setnx has a test of its own, and set-ex-fixed and
// getset cannot know whose the lock is.
func TestLostReplyLeavesNoLock(t *testing.T) {
	server := backendtest.Local(t)
	for _, c := range []struct{ lock, command string }{
		{"exists-set", "exists"}, {"exists-set", "set"},
		{"setnx-expire-naive", "setnx"}, {"setnx-expire-naive", "expire"},
		{"set-ex-compare", "set"},
		{"setnx-expire", "setnx"}, {"setnx-expire", "expire"},
		{"set-px", "set"},
		{"reentrant", "evalsha"}, {"reentrant-local", "set"}, {"fenced", "evalsha"},
	} {
		t.Run(c.lock+"/"+c.command, func(t *testing.T) {
			b := newBench(t, server)
			proxy := wire.Start(t, server)
			w := b.worker(c.lock, setting{through: proxy.Server()})
			wants(t, "first release", b.try(w).Release(t.Context()), nil) // its scripts are known now
			proxy.LoseReply(c.command)
			if _, err := w.Try(t.Context(), name); err == nil || errors.Is(err, lock.ErrHeld) {
				t.Errorf("Try without a reply: %v", err)
			}
			b.free()
			wants(t, "next release", b.try(w).Release(t.Context()), nil)
		})
	}
}

// One that is cut off halfway through looking after another's lock has nothing to give back.
func TestLostReplyLeavesAnothersLock(t *testing.T) {
	server := backendtest.Local(t)
	for _, c := range []struct{ lock, command string }{
		{"exists-set", "exists"}, {"setnx-expire-naive", "setnx"}, {"set-ex-fixed", "set"}, {"set-ex-compare", "set"},
		{"getset", "setnx"}, {"getset", "get"}, {"setnx-expire", "setnx"}, {"setnx-expire", "pttl"}, {"set-px", "set"},
		{"reentrant-local", "set"},
	} {
		t.Run(c.lock+"/"+c.command, func(t *testing.T) {
			b := newBench(t, server)
			lease := b.try(b.worker(c.lock, setting{}))
			proxy := wire.Start(t, server)
			w := b.worker(c.lock, setting{through: proxy.Server()})
			proxy.LoseReply(c.command)
			if _, err := w.Try(t.Context(), name); err == nil || errors.Is(err, lock.ErrHeld) {
				t.Errorf("Try without a reply: %v", err)
			}
			wants(t, "the holder's release", lease.Release(t.Context()), nil)
		})
	}
}
