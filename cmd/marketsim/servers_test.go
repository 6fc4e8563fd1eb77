package main

import (
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// external is a redis-server that stands for the user's own.
type external struct {
	*backend.Server
	conn *backend.Conn // of somebody who may do everything
}

func newExternal(t testing.TB, args ...string) external {
	t.Helper()
	s := backendtest.Local(t, args...)
	return external{s, backendtest.Dial(t, s)}
}

// url is how to reach the server, as a user with a password if userinfo is not empty.
func (e external) url(userinfo string) string {
	if userinfo != "" {
		userinfo += "@"
	}
	return "redis://" + userinfo + e.Target.Addr
}

// holds checks that these keys are on the server, and no others.
func (e external) holds(t testing.TB, want ...string) {
	t.Helper()
	got, err := e.conn.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("the server holds %q, want %q", got, want)
		return
	}
	if len(want) > 0 {
		if n := e.conn.Exists(t.Context(), want...).Val(); int(n) != len(want) {
			t.Errorf("the server holds %q, want %q", got, want)
		}
	}
}

// trading waits until a run under the prefix is under way: a rehearsal lists one item only.
func (e external) trading(t testing.TB, prefix string) {
	t.Helper()
	eventually(t, "a run under "+prefix, func() bool {
		return e.conn.ZCard(t.Context(), prefix+"market:").Val() > 3
	})
}

// short makes a row take a tenth of a second.
func short(args ...string) []string {
	return append(args, "--duration", "100ms", "--warmup", "20ms")
}
