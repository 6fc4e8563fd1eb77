package main

import (
	"strings"
	"testing"
)

func TestKeepAndClean(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	neighbours := []string{"mine", "mine:note", "mine:users:99", "minefield:run", "other:run"}
	kept := short("run", "--strategy", "fine", "--mix", "2x1", "--keep", "--prefix", "mine:", "--redis", s.url(""))
	marketsim(t, kept...).exits(t, exitFine).
		says(t, "the market is kept under mine:; remove it with 'marketsim clean --prefix mine:'")
	if n := s.conn.Exists(t.Context(), "mine:run", "mine:market:", "mine:users:1", "mine:users:3", "mine:inventory:3").Val(); n != 5 {
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
	marketsim(t, "clean", "--prefix", "mine:", "--redis", "redis://"+refusedAddr(t)).exits(t, exitEnvironment).says(t, "cannot reach Redis")
}

func TestCleanAfterKill(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"coarse", "fine", "fine-wallet", "watch"} {
		t.Run(strategy, func(t *testing.T) {
			s := newExternal(t)
			c := startChild(t, "run", "--strategy", strategy, "--mix", "2x2", "--duration", "1m", "--redis", s.url(""))
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
			marketsim(t, "clean", "--prefix", prefix, "--redis", s.url("")).exits(t, exitFine).says(t, "removed ")
			s.holds(t, "neighbour")
		})
	}
}

// prefixOf is the random prefix that a child prints before it makes a key.
func prefixOf(t *testing.T, c *child) string {
	t.Helper()
	_, after, found := strings.Cut(c.told("clean --prefix "), "keys: under ")
	prefix, _, ended := strings.Cut(after, ",")
	if !found || !ended || !strings.HasPrefix(prefix, "marketsim:{") {
		t.Fatalf("no prefix in\n%s", c.stderr.String())
	}
	return prefix
}
