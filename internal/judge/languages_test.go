package judge_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// The same mistakes have the same shortest schedules in each language, of which
// CI plays one each.
func TestControlsInOtherLanguages(t *testing.T) {
	alone(t)
	t.Parallel()
	everyOne := os.Getenv("MARKETSIM_JUDGE") == "languages"
	interpreters := []string{"/usr/bin/python3", "node", "ruby"}
	endings := []string{".py", ".js", ".rb"} // of the programs in each

	for n, c := range []struct {
		program, kind, token string
		harm                 verify.Harm
	}{
		{"lock", "fixed", "x5/fixed/lock/d1.d1.pause1.d2.w1.d1.d1.d1.d1.d2.d2", verify.FreedAnothers},
		{
			"lock", "get-del", "x5/getdel/lock/d1.d1.d1.pause1.d2.w1.d1.d1.d1.d1.d1.d2.d2",
			verify.FreedAnothers,
		},
		{"lock", "get-set", "x5/getset/lock/d1.d2.d2.d1.d2.d2.d1.d1.d1.d1.d1.d1", verify.TwoHolders},
		{"lock", "setnx-pexpire", "x5/setnx/lock/d1.d1.d1.d1.d1.d1.d1.d1.die2", verify.LockedOut},
		{"buy", "late-watch", "x5/late/one-item/d1.d1.d2.d2.d2.d2.d1.d1", verify.SoldTwice},
		{"buy", "script-again", "x5/again/one-item/lose-reply1.d1.d2", verify.ToldNo},
	} {
		for m, interpreter := range interpreters {
			if m != n%len(interpreters) && !everyOne {
				continue
			}
			t.Run(c.kind+"/"+interpreter, func(t *testing.T) {
				replays(t, []string{interpreter, "testdata/" + c.program + endings[m], c.kind}, c.token, c.harm)
			})
		}
	}
}

// replays replays a token on a program, and wants it to find a harm, or none. The test needs
// "clients" if the program's language or its client library is missing, see testkit.Require.
func replays(t *testing.T, command []string, token string, harm verify.Harm) {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		testkit.Require(t, "clients", err.Error())
	}

	var lacks error // its client library
	o := options(t, "", explore.Bounds{})
	o.Command = command
	retried(t, o, func(o judge.Options) error {
		found, err := judge.Replay(t.Context(), o, token)
		got := cmp.Or(found.Harm, verify.NoHarm)
		switch {
		case errors.Is(err, judge.ErrAdapter):
			lacks = err
			return nil
		case err == nil && got != harm:
			err = fmt.Errorf("%q: %s: %v, want %s\n%s", command, token, found.Violation, harm, found.Diagram)
		}
		return err
	})
	if lacks != nil {
		testkit.Require(t, "clients", lacks.Error())
	}
}

// Sound locks wait in the server, for a list or for a message, and one is
// released by a script of redis-rb: what they promise is kept when a client is
// stopped, or dies. It takes 50 s.
func TestSoundLocksInOtherLanguages(t *testing.T) {
	if os.Getenv("MARKETSIM_JUDGE") != "languages" {
		t.Skip("takes a machine of its own: set MARKETSIM_JUDGE=languages")
	}
	for _, command := range [][]string{
		{"/usr/bin/python3", "testdata/waits.py", "blpop"},
		{"/usr/bin/python3", "testdata/waits.py", "message"},
		{"ruby", "testdata/script.rb"},
	} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			bounds := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Pause, explore.Die}}
			o := options(t, "", bounds)
			o.Command = command

			// One step of a client shows whether the program runs here: its library may be missing.
			if _, err := judge.Replay(t.Context(), o, "x5/any/lock/d1"); errors.Is(err, judge.ErrAdapter) {
				testkit.Require(t, "clients", err.Error())
			}

			finds(t, o, verify.Outlived)
		})
	}
}
