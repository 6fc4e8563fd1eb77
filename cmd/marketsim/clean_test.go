package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func TestKeepAndClean(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	neighbours := []string{"mine", "mine:note", "mine:users:99", "minefield:run", "other:run"}
	kept := short("run", "--strategy", "fine", "--mix", "2x1", "--keep", "--prefix", "mine:",
		"--redis", s.url(""))
	marketsim(t, kept...).exits(t, exitFine).
		says(t,
			"the market is kept; remove it with: marketsim clean --redis "+s.url("")+" --prefix mine:\n",
			"keys: under mine:, kept until: marketsim clean ",
		).
		silent(t, "removed at the end")
	some := []string{"mine:run", "mine:market:", "mine:users:1", "mine:users:3", "mine:inventory:3"}
	if n := s.conn.Exists(t.Context(), some...).Val(); n != 5 {
		t.Errorf("%d of 5 keys of the market are there", n)
	}
	marketsim(t, kept...).exits(t, exitEnvironment).says(t, "prefix already holds keys")

	for _, key := range neighbours {
		s.conn.Set(t.Context(), key, "not ours", 0)
	}
	clean := []string{"clean", "--prefix", "mine:", "--redis", s.url("")}
	marketsim(t, clean...).exits(t, exitFine).says(t, "removed 8 keys under mine:\n")
	s.holds(t, neighbours...)
	marketsim(t, clean...).exits(t, exitFine).says(t, "nothing to remove")
	s.holds(t, neighbours...)
}

func TestCleanRefuses(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	clean := []string{"clean", "--prefix", "mine:", "--redis", s.url("")}
	s.conn.Set(t.Context(), "mine:run", "a string", 0)
	marketsim(t, clean...).exits(t, exitEnvironment).says(t, "mine:run", "WRONGTYPE")
	s.conn.Del(t.Context(), "mine:run")
	s.conn.HSet(t.Context(), "mine:run", "accounts", "many")
	marketsim(t, clean...).exits(t, exitEnvironment).says(t, "not a note of marketsim")
	s.holds(t, "mine:run")
	marketsim(t, "clean", "--prefix", "mine:", "--redis", "redis://"+refusedAddr(t)).
		exits(t, exitEnvironment).says(t, "cannot reach Redis")
}

// TestCleanAfterKill: what a killed run has left is removed, and a neighbour's key stays.
func TestCleanAfterKill(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"coarse", "fine", "fine-wallet", "watch"} {
		t.Run(strategy, func(t *testing.T) {
			s := newExternal(t)
			c := startChild(t, "run", "--strategy", strategy, "--mix", "2x2", "--duration", "1m",
				"--redis", s.url(""))
			prefix := prefixOf(t, c)
			s.trading(t, prefix)
			c.kill()
			eventually(t, "the end of the child's connections", func() bool {
				return strings.Count(s.conn.ClientList(t.Context()).Val(), "\n") == 1
			})

			// Whatever the kill hit, leave the locks that it may leave.
			switch strategy {
			case "coarse":
				s.conn.Set(t.Context(), prefix+"lock:market", "dead", 0)
			case "fine-wallet":
				s.conn.Set(t.Context(), prefix+"lock:users:4", "dead", 0)
				fallthrough
			case "fine":
				s.conn.Set(t.Context(), prefix+"lock:1", "dead", 0)
			}

			s.conn.Set(t.Context(), "neighbour", "not ours", 0)
			marketsim(t, "clean", "--prefix", prefix, "--redis", s.url("")).exits(t, exitFine).
				says(t, "removed ")
			s.holds(t, "neighbour")
		})
	}
}

// TestCleanWithoutNote: what a run left is found by its names where the server has lost
// the run's note, if something shows that a run made it.
func TestCleanWithoutNote(t *testing.T) {
	t.Parallel()
	left := func(s external, prefix string) { // by a client that was killed after a FLUSHALL
		s.conn.HIncrBy(t.Context(), prefix+"users:1", "funds", 5)
		s.conn.SAdd(t.Context(), prefix+"inventory:2", 7)
		s.conn.ZAdd(t.Context(), prefix+"market:", redis.Z{Score: 3, Member: "8.1"})
		s.conn.Set(t.Context(), prefix+"lock:users:2", "dead", 0)
		s.conn.Set(t.Context(), prefix+"lock:8:counter", "1", 0)
		s.conn.Set(t.Context(), prefix+"fence:market", "1", 0)
	}

	for name, c := range map[string]struct {
		prefix string
		more   func(s external)
		says   string
	}{
		"a prefix that was drawn": {
			prefix: "marketsim:{01234567}:",
			more:   func(external) {},
			says:   "removed 6 keys under",
		},
		"a torn note": {
			prefix: "mine:",
			more:   func(s external) { s.conn.HIncrBy(t.Context(), "mine:run", "items", 1000) },
			says:   "removed 7 keys",
		},
		"an account": {
			prefix: "mine:",
			more:   func(s external) { s.conn.HSet(t.Context(), "mine:users:3", "name", "user-3") },
			says:   "removed 7 keys",
		},
		"nothing of the sort": {
			prefix: "mine:",
			more:   func(external) {},
			says:   "nothing shows that one made the 6 keys there whose names are like a market's, such as mine:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newExternal(t)
			neighbours := []string{
				c.prefix + "note", c.prefix + "users:99", c.prefix + "lock:mine", "other:run",
			}
			for _, key := range neighbours {
				s.conn.Set(t.Context(), key, "not ours", 0)
			}

			left(s, c.prefix)
			c.more(s)
			marketsim(t, "clean", "--prefix", c.prefix, "--redis", s.url("")).exits(t, exitFine).
				says(t, c.says)
			if strings.HasPrefix(c.says, "removed") {
				s.holds(t, neighbours...)
			} else if n := s.conn.DBSize(t.Context()).Val(); n != int64(6+len(neighbours)) {
				t.Errorf("%d keys are left of %d", n, 6+len(neighbours))
			}
		})
	}
}

// TestCleanSeveral: the markets of a run are found where the first has lost its note, and where
// the run was killed before it had noted them. A note that names what is not the run's is
// refused.
func TestCleanSeveral(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	kept := func() {
		marketsim(t, short("run", "lua", "--mix", "3x3", "--markets", "3", "--keep", "--prefix", "mine:",
			"--redis", s.url(""))...).exits(t, exitFine).says(t, "--prefix mine:\n")
	}
	clean := []string{"clean", "--prefix", "mine:", "--redis", s.url("")}

	for name, spoil := range map[string]func(){
		"whole":            func() {},
		"without its note": func() { s.conn.Del(t.Context(), "mine:{1}:run") },
		"half a note": func() {
			s.conn.HDel(t.Context(), "mine:{1}:run", "accounts", "strategy", "part_of", "markets")
		},
		"before the note": func() { s.conn.HDel(t.Context(), "mine:{1}:run", "part_of", "markets") },
	} {
		kept()
		spoil()
		marketsim(t, clean...).exits(t, exitFine).
			says(t, "removed ", " under mine:{1}:\n", " under mine:{3}:\n")
		if left := s.conn.Keys(t.Context(), "*").Val(); len(left) > 0 {
			t.Errorf("%s: left are %q", name, left)
		}
	}
	marketsim(t, clean...).exits(t, exitFine).says(t, "nothing to remove")

	s.conn.HSet(t.Context(), "yours:run", "accounts", 1)
	s.conn.HSet(t.Context(), "mine:{1}:run", "accounts", 1, "part_of", "mine:", "markets", "yours:")
	marketsim(t, clean...).exits(t, exitEnvironment).
		says(t, "not a note of marketsim", `it names the market "yours:"`)
	s.holds(t, "yours:run", "mine:{1}:run")
}

// prefixOf is the prefix that a child prints before it makes a key.
func prefixOf(t *testing.T, c *child) string {
	t.Helper()
	_, after, found := strings.Cut(c.awaitStderr("marketsim clean "), "keys: under ")
	prefix, _, ended := strings.Cut(after, ",")
	if !found || !ended {
		t.Fatalf("no prefix in\n%s", c.stderr.String())
	}
	return prefix
}

// TestCleanOfVeryMuch says how long it takes, and ends when it is interrupted, with what
// is left for the next.
func TestCleanOfVeryMuch(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	note := []any{"accounts", 2, "items", 1_000_000_000, "strategy", "fine"}
	s.conn.HSet(t.Context(), "mine:run", note...)

	ctx, interrupt := context.WithCancel(t.Context())
	var interrupted time.Time
	stderr := &watched{
		says: "of 1,000,000,000 keys that the run may have left are looked for, about ",
		then: func() {
			interrupted = time.Now()
			interrupt()
		},
	}

	args := []string{"clean", "--prefix", "mine:", "--redis", s.url("")}
	err := run(ctx, args, strings.NewReader(""), io.Discard, stderr)
	took := time.Since(interrupted)
	if code := exitCode(err); code != exitInterrupted || interrupted.IsZero() || took > 5*time.Second {
		t.Errorf("exit code %d, %v, %s after the interruption, having said:\n%s",
			code, err, took, stderr.said.String())
	}

	s.holds(t, "mine:run")
}

// A watched is a writer that does something once when a text was written.
type watched struct {
	said bytes.Buffer
	says string
	then func()
}

func (w *watched) Write(b []byte) (int, error) {
	before := strings.Contains(w.said.String(), w.says)
	w.said.Write(b)
	if !before && strings.Contains(w.said.String(), w.says) {
		w.then()
	}
	return len(b), nil
}

func TestCountLockKeys(t *testing.T) {
	t.Parallel()
	keys := testkit.Must(market.NewKeys("x:"))(t)
	c := catalogue.Full()

	for _, name := range []string{
		"watch", "fine", "coarse", "fine-wallet", "fine:queue", "fine:rw-safe", "lua",
		"fine:fenced:fencing=on",
	} {
		spec := testkit.Must(c.Parse(name))(t)
		for _, made := range []market.RunNote{
			{Accounts: 0, Items: 0}, {Accounts: 7, Items: 3000}, {Accounts: 30, Items: 50_123},
			{Accounts: 15_000, Items: 40_000}, {Accounts: 40_000, Items: 10},
		} {
			var want int64
			for range spec.LockKeys(keys, made) {
				want++
			}
			if got := countLockKeys(spec, keys, made); got != want {
				t.Errorf("%s with %+v: %d keys, want %d", name, made, got, want)
			}
		}
	}
}
