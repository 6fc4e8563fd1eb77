package backend_test

import (
	"bufio"
	"io"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/backend"
)

// A server that lags lacks the last writes, and not the last commands: those that change
// nothing are not counted, and what is left of an expiry is what was left.
func TestLag(t *testing.T) {
	now := time.Now()
	commands := [][]string{
		{"SET", "a", "1"}, {"SET", "lock", "me", "PX", "10000"}, {"SET", "b", "1"},
		{"SET", "lock", "you", "NX", "PX", "10000"}, {"SUBSCRIBE", "news"}, {"GET", "a"},
	}
	// The commands are a second apart, so that half of the lock's 10 s is over.
	var log []backend.Executed
	for i, c := range commands {
		at := now.Add(time.Duration(i-len(commands)) * time.Second)
		log = append(log, backend.Executed{Connection: i % 2, At: at, Commands: [][]string{c}})
	}

	for without, want := range []string{"1 me 1", "1 me ", "1  "} {
		m := backend.Memory()
		left := backend.Lag(m, []int{0}, log, without)
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
	log := []backend.Executed{
		{At: now.Add(-3 * time.Second), Commands: [][]string{{"SET", "past", "1", "PX", "1000"}}},
		{At: now.Add(-2 * time.Second), Commands: [][]string{{"SETNX", "lock", "me"}}},
		{At: now.Add(-time.Second), Commands: [][]string{{"PEXPIRE", "lock", "10000"}}},
		{At: now.Add(-time.Second), Commands: [][]string{{"GET", "past"}}},
	}
	m := backend.Memory()
	backend.Lag(m, []int{0}, log, 1)
	if lock, _ := m.Get("lock"); lock != "me" || m.TTL("lock") != 0 {
		t.Errorf("without the expiry lock holds %q for %s, want it for ever", lock, m.TTL("lock"))
	}
}

// A write into another database counts, and is made there, though the handshake that has
// selected it is not in the log.
func TestLagInAnotherDatabase(t *testing.T) {
	now := time.Now()
	log := []backend.Executed{
		{Connection: 1, At: now, Commands: [][]string{{"SET", "key", "of the first"}}},
		{Connection: 2, Database: 3, At: now, Commands: [][]string{{"SET", "key", "old"}}},
		{Connection: 2, Database: 3, At: now, Commands: [][]string{{"SET", "key", "new"}}},
		{Connection: 1, At: now, Commands: [][]string{{"GET", "key"}}},
	}

	for without, want := range []string{"of the first new", "of the first old", "of the first "} {
		m := backend.Memory()
		backend.Lag(m, []int{0, 3}, log, without)
		first, _ := m.DB(0).Get("key")
		other, _ := m.DB(3).Get("key")

		if is := first + " " + other; is != want {
			t.Errorf("without %d writes it holds %q, want %q", without, is, want)
		}
	}
}

// A server in memory knows its scripts.
func TestMemoryKnowsScripts(t *testing.T) {
	m := backend.Memory("return redis.call('SET', KEYS[1], ARGV[1])")
	peer := server.NewPeer(bufio.NewWriter(io.Discard))
	m.Server().Dispatch(peer, []string{"EVALSHA", "d8f2fad9f8e86a53d2a6ebd960b33c4972cacc37", "1", "k", "v"})
	if v, err := m.Get("k"); v != "v" {
		t.Errorf("k holds %q (%v), want v", v, err)
	}
}
