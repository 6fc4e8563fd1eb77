package judge

import (
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
)

// A search that chance has ended concludes nothing, and one that the time has
// ended says how far it came.
func TestPromisesOfASearchThatWasStopped(t *testing.T) {
	for _, c := range []struct{ stopped, state string }{
		{"", "kept"}, {"the time that it was given", "kept"}, {"because " + search.ErrChance.Error(), "unchecked"},
	} {
		row := findings.Exploration{Judged: true, Program: locks, Searched: findings.Searched{Stopped: c.stopped}}
		found := judgement{searches: []findings.Exploration{row}, tested: map[string]bool{exclusive: true}}
		got := found.exclusive()
		if got.State != c.state || (got.Why == "") != (c.stopped == "") {
			t.Errorf("stopped %q: %+v, want %s", c.stopped, got, c.state)
		}
	}
}

// A token holds a program's command, and is typed into a shell as it stands.
func TestTokensNeedNoQuotes(t *testing.T) {
	for want, command := range map[string][]string{
		"python3_lock.py":         {"python3", "lock.py"},
		"sh_-c_echo___HOME__ls__": {"sh", "-c", "echo '$HOME'\nls *"},
	} {
		if got := (Options{Command: command}).subject(); got != want {
			t.Errorf("%q is %s in a token, want %s", command, got, want)
		}
	}
}
