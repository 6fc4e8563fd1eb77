package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
)

// The secrets of a command are left out of what is shown of it, however they are named.
func TestSecretsOfACommand(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"lock.py --password SECRET --host h":     "lock.py|--password|...|--host|h",
		"lock.py --redis-password=SECRET":        "lock.py|--redis-password=...",
		"env REDIS_PASSWORD=SECRET A=b lock.py":  "env|REDIS_PASSWORD=...|A=b|lock.py",
		"lock.py redis://user:SECRET@host:1/0":   "lock.py|redis://...@host:1/0",
		"lock.py rediss://:SECRET@host":          "lock.py|rediss://...@host",
		`lock.py {"password":"SECRET","db":1}`:   `lock.py|{"password":"...","db":1}`,
		"lock.py --api-token SECRET --verbose":   "lock.py|--api-token|...|--verbose",
		"lock.py --auth --verbose":               "lock.py|--auth|--verbose",
		"lock.py password:SECRET":                "lock.py|password:...",
		"lock.py --lease 2s --name lock":         "lock.py|--lease|2s|--name|lock",
		"lock.py SECRET --password=SECRET again": "lock.py|SECRET|--password=...|again",
	} {
		var s passwords
		shown := s.addIn(strings.Fields(strings.ReplaceAll(given, "SECRET", secret)))
		if !slices.Equal(shown, strings.Split(strings.ReplaceAll(want, "SECRET", secret), "|")) {
			t.Errorf("of %s is shown %q, want %s", given, shown, want)
		}
		if strings.Contains(given, secretMark(given)) && s.hide("it said "+secret) == "it said "+secret {
			t.Errorf("after %s a program that says the secret is shown", given)
		}
	}

	var s passwords
	shell := s.addIn([]string{
		"sh", "-c", "PASSWORD='" + secret + "' lock.py --token " + secret + " $TOKEN; read key",
	})
	if want := "PASSWORD='...' lock.py --token ... $TOKEN; read key"; shell[2] != want {
		t.Errorf("of a script is shown %s, want %s", shell[2], want)
	}
}

// secretMark is what stands for a secret, or more than the text if nothing does.
func secretMark(text string) string {
	if strings.Contains(text, "SECRET") {
		return "SECRET"
	}
	return text + "SECRET"
}

// What judge prints and stores holds no secret of its command, nor what the program says
// of it.
func TestJudgeKeepsSecrets(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	dir := filepath.Join(t.TempDir(), "out")
	command := []string{
		"env", "LOCK_PASSWORD=" + secret, childEnv + "=1", os.Args[0], "adapter", "set-ex-compare",
	}
	const token = "x5/lock/lock/d1.d1.d1.pause1.d2.w1.d1.d1.d1.d1.d1.d2.d2"
	args := []string{"judge", "--replay", token, "--out", dir, "--"}

	// A busy machine may not come to the end of a schedule.
	var o outcome
	for try := 0; try < 10 && !exists(filepath.Join(dir, exploredFile)); try++ {
		o = marketsim(t, append(args, command...)...)
		hidden(t, secret, o, dir)
	}
	stored := read(t, filepath.Join(dir, exploredFile))
	if !strings.Contains(stored, "LOCK_PASSWORD=...") {
		t.Errorf("the command is not stored: %s\n%s", o.stderr, stored)
	}

	const says = `echo "my password is $0" >&2; read -r line; exit`
	o = marketsim(t, "judge", "-v", "--within", "2s", "--", "sh", "-c", says, "--password="+secret)
	o.exits(t, exitUsage).says(t, "my password is --password=***")
	hidden(t, secret, o)
}

// A program may say a secret of its command wherever words of its own are stored: in an error,
// which becomes the text of a harm, in what it sent, and in the name of what it calls.
func TestFoundHoldsNoSecret(t *testing.T) {
	t.Parallel()
	said := "it said " + secret
	found := findings.Explorations{
		Searches: []findings.Exploration{{
			Scheme: said, Why: said,
			ShortestHarm: findings.ShortestHarm{
				Shows: said, Token: said,
				Diagram: &verify.Diagram{
					Events: []verify.Event{{Does: said, Reply: said}},
					End:    []string{"Harm: " + said, "script-1: " + said},
				},
			},
			Searched: findings.Searched{Stopped: said},
		}},
		Promises: []verify.PromiseState{{Why: said}},
	}

	var s passwords
	s.add(secret)
	s.hideInFound(&found)
	stored := string(testkit.Must(json.Marshal(found))(t))
	if strings.Contains(stored, secret) || strings.Count(stored, "it said ***") != 10 {
		t.Errorf("what is stored: %s", stored)
	}
}

// What cannot be judged is told at once what to do about it, with the exit code of usage.
func TestJudgeRefusesBadInput(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	for _, c := range []struct {
		args, says string
	}{
		{"-- no-such-program", "is it installed"},
		{"-- /dev/null", "permission denied"},
		{"--replay x5/true/lock -- true", "no token of a schedule"},
		{"--replay x5/true/lock/ -- true", `step 1 of the token, "", is none`},
		{"--replay x5/true/lock/d1.q9 -- true", `step 2 of the token, "q9", is none`},
		{"--replay x5/true/nothing/d1 -- true",
			`no program "nothing"; there is lock, lock-works, lock-clock, lock-clock-behind`},
	} {
		marketsim(t, append([]string{"judge"}, strings.Fields(c.args)...)...).
			exits(t, exitUsage).says(t, c.says)
	}

	marketsim(t, "run", "--strategy", "exec:py", "--exec", "py=no-such-program").
		exits(t, exitUsage).says(t, "is it installed")

	for script, says := range map[string]string{
		`while read -r x; do printf 'acquired\r'; done`:                       `it has said "acquired\r`,
		`while read -r x; do head -c 70000 /dev/zero | tr '\0' a; echo; done`: "said a line of more than 64 KB",
	} {
		marketsim(t, "judge", "--within", "8s", "--", "sh", "-c", script).
			exits(t, exitUsage).says(t, says)
	}
}

// A program that says nothing ends the command within the time that it has.
func TestJudgeOfASilentProgram(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	o := marketsim(t, "judge", "--within", "2s", "--", "sleep", "1000")
	o.exits(t, exitUsage).says(t, "has said nothing for 1s: did it flush its output?")
	if o.took > 30*time.Second { // it took three minutes; the machine may be busy
		t.Errorf("it took %s", o.took)
	}
}

// A damaged token of a schedule that began well is a mistake in the command line, too.
func TestJudgeOfATokenThatDoesNotFit(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	command := []string{"env", childEnv + "=1", os.Args[0], "adapter", "set-px"}
	args := []string{"judge", "--replay", "x5/lock/lock/d1.a2", "--"}
	marketsim(t, append(args, command...)...).exits(t, exitUsage).
		says(t, "step 2 of the token cannot be chosen", "was it copied whole")
}
