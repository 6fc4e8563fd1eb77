package embedded_test

import (
	"bufio"
	"io"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/backend/embedded"
)

// A server that lags lacks the last writes, and not the last commands: those that change
// nothing are not counted, and what is left of an expiry is what was left.
func TestLag(t *testing.T) {
	now := time.Now()
	commands := [][]string{
		{"SET", "a", "1"}, {"SET", "lock", "me", "PX", "10000"}, {"SET", "b", "1"},
		{"SET", "lock", "you", "NX", "PX", "10000"}, {"SUBSCRIBE", "news"}, {"GET", "a"},
	}
	var log []embedded.Executed
	for i, c := range commands {
		at := now.Add(time.Duration(i-len(commands)) * time.Second)
		log = append(log, embedded.Executed{Connection: i % 2, At: at, Commands: [][]string{c}})
	}
	for without, want := range []string{"1 me 1", "1 me ", "1  "} {
		m := embedded.Memory()
		left := embedded.Lag(m, log, without)
		a, _ := m.Get("a")
		lock, _ := m.Get("lock")
		b, _ := m.Get("b")
		if is := a + " " + lock + " " + b; is != want {
			t.Errorf("without %d writes it holds %q, want %q", without, is, want)
		}
		if ttl := m.TTL("lock"); lock != "" && (ttl > 6*time.Second || ttl < 4*time.Second) {
			t.Errorf("without %d writes the lock expires in %s, want about 5s", without, ttl)
		}
		if without == 0 && len(left) != len(log) {
			t.Errorf("%d entries of %d are left", len(left), len(log))
		}
	}
}

// An expiry is a write, and what is gone by now is none that is lacking.
func TestLagExpiries(t *testing.T) {
	now := time.Now()
	log := []embedded.Executed{
		{At: now.Add(-3 * time.Second), Commands: [][]string{{"SET", "past", "1", "PX", "1000"}}},
		{At: now.Add(-2 * time.Second), Commands: [][]string{{"SETNX", "lock", "me"}}},
		{At: now.Add(-time.Second), Commands: [][]string{{"PEXPIRE", "lock", "10000"}}},
		{At: now.Add(-time.Second), Commands: [][]string{{"GET", "past"}}},
	}
	m := embedded.Memory()
	embedded.Lag(m, log, 1)
	if lock, _ := m.Get("lock"); lock != "me" || m.TTL("lock") != 0 {
		t.Errorf("without the expiry lock holds %q for %s, want it for ever", lock, m.TTL("lock"))
	}
}

// A server in memory knows its scripts.
func TestMemoryKnowsScripts(t *testing.T) {
	m := embedded.Memory("return redis.call('SET', KEYS[1], ARGV[1])")
	peer := server.NewPeer(bufio.NewWriter(io.Discard))
	m.Server().Dispatch(peer, []string{"EVALSHA", "d8f2fad9f8e86a53d2a6ebd960b33c4972cacc37", "1", "k", "v"})
	if v, err := m.Get("k"); v != "v" {
		t.Errorf("k holds %q (%v), want v", v, err)
	}
}
