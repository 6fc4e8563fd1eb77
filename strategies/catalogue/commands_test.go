package catalogue_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// guests are users of a server.
type guests struct {
	*backend.Server
	admin *redisconn.Conn
}

// dial connects as a user with these rules and no others.
func (g guests) dial(t *testing.T, rules ...string) *redisconn.Conn {
	t.Helper()
	words := []any{"ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", "&*"}
	for _, rule := range rules {
		words = append(words, rule)
	}
	testkit.Succeeds(t, g.admin.Do(t.Context(), words...).Err())
	target := g.Target
	target.Username, target.Password = "guest", "pw"
	return testkit.Must(redisconn.To(target).Dial(t.Context()))(t)
}

// every are the commands of all specs that Rights is about.
func every() []backend.DryRun {
	full := catalogue.Full()
	var specs []strategies.Spec
	for _, strategy := range full.Strategies {
		specs = append(specs, withLocks(full, strategy)...)
	}
	return backend.DryRuns(append(catalogue.Commands(specs...), catalogue.ToFind)...)
}

// Each command that is missing is found, whichever it is, and nothing is executed.
func TestRefusedCommandsAreFound(t *testing.T) {
	s := testkit.Local(t)
	g := guests{s, testkit.Dial(t, s)}
	refused := func(key string, rules ...string) (names []string) {
		conn := g.dial(t, rules...)
		defer conn.Close()
		trials, err := backend.RefusedByACL(t.Context(), conn, every(), key, key)
		if _, denied := redisconn.Denied(err); denied != (len(trials) > 0) {
			t.Errorf("with %q: %v, and %q are refused", rules, err, trials)
		}
		return wording.Names(trials, backend.DryRun.Command)
	}

	if got := refused("k", "+@all"); len(got) > 0 {
		t.Errorf("refused to a user who may do everything: %q", got)
	}

	for _, trial := range every() {
		command := trial.Command()
		if command == "ping" || command == "multi" {
			continue // without PING nobody connects, and without MULTI nothing can be tried
		}
		if got := refused("k", "+@all", "-"+command); !slices.Equal(got, []string{command}) {
			t.Errorf("without %s these are refused: %q", command, got)
		}
	}

	if got := refused("k", "+@all", "-multi"); len(got) != len(every()) {
		t.Errorf("without MULTI only these are refused: %q", got)
	}

	got := refused("theirs", "+@all", "resetkeys", "~mine")
	if !slices.Contains(got, "hget") || slices.Contains(got, "ping") {
		t.Errorf("to a user of other keys these are refused: %q", got)
	}

	if keys := g.admin.Keys(context.Background(), "*").Val(); len(keys) > 0 {
		t.Errorf("trying has left %q", keys)
	}
}

// The rules that README names are enough for every strategy and lock.
func TestRightsAreEnough(t *testing.T) {
	s := testkit.Local(t)
	g := guests{s, testkit.Dial(t, s)}
	conn := g.dial(t, strings.Fields(catalogue.Rights)...)
	defer conn.Close()
	refused, err := backend.RefusedByACL(t.Context(), conn, every(), "k", "k")
	if len(refused) > 0 || err != nil {
		t.Errorf("%q are refused to a user with +%s: %v", refused, catalogue.Rights, err)
	}
}
