package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
)

// The commands of docs/answers.md that measure, each with what it finds if that is
// stored; and what is found at one mix.
var (
	answered = regexp.MustCompile(`(?m)^    marketsim ((?:compare|run) [^#\n]+?)(?: +# (.+))?$`)
	ratioAt  = regexp.MustCompile(`^at (\S+) (?:faster|slower|no difference|not decided)` +
		`(?:: \S+ times \((\S+) to (\S+)\))?$`)
)

// doubtless is how far from 1 the interval of a ratio must lie so that a short run on
// another machine cannot find the opposite.
const doubtless = 1.25

// TestAnswers runs each command of docs/answers.md for a short time, at its first mix:
// it finds what is stored, or does not decide, but never the opposite of what is
// beyond doubt. One without a stored answer is understood: all that it lacks is a
// server. What 'marketsim faults' finds is compared in package fault. It measures for
// minutes, and is skipped without MARKETSIM_ANSWERS. A machine that stands still at the wrong
// moment can make a command fail, which is then run again, three times in all.
func TestAnswers(t *testing.T) {
	t.Parallel()
	commands := answered.FindAllStringSubmatch(read(t, "../../docs/answers.md"), -1)
	if len(commands) < 10 {
		t.Fatalf("only %d commands were found", len(commands))
	}
	if os.Getenv("MARKETSIM_ANSWERS") == "" {
		t.Skip("measures for minutes: set MARKETSIM_ANSWERS")
	}

	server := newExternal(t).Target.Addr
	played := map[string]bool{}
	for _, c := range commands {
		if played[c[1]] {
			continue
		}
		played[c[1]] = true
		t.Run(c[1], func(t *testing.T) {
			t.Parallel() // each is slower then, and its ratio much the same
			first := strings.Split(c[2], "; ")[0]
			if first == "" {
				marketsim(t, withFlags(strings.Fields(c[1]), "--redis", "redis://"+refusedAddr(t))...).exits(t, exitEnvironment)
				return
			}
			for try := 1; ; try++ {
				found, err := answer(t, server, strings.Fields(c[1]), first)
				t.Logf("stored: %s; found: %s", first, found)
				if err == nil {
					return
				}
				if try == 3 {
					t.Fatal(err)
				}
				t.Logf("again, because %v", err)
			}
		})
	}
}

// answer runs a command for a short time, and returns what it finds. It is an error if
// that is not what the page says of its first mix.
func answer(t *testing.T, server string, args []string, says string) (found string, err error) {
	for i, arg := range args {
		if arg == "--mix" {
			args[i+1], _, _ = strings.Cut(args[i+1], ",")
		}
	}

	o := marketsim(t, withFlags(args,
		"--redis", "redis://"+server, "--duration", "40ms", "--warmup", "10ms", "--format", "json")...)
	if o.code != exitFine {
		return "", fmt.Errorf("exit code %d: %s", o.code, o.stderr)
	}

	stored := ratioAt.FindStringSubmatch(says)
	if stored == nil {
		return "", fmt.Errorf("the page says %q: no comparison", says)
	}
	return sameVerdict(parse(t, o.stdout), stored)
}

// sameVerdict returns an error if the run's first comparison, the one that was asked for,
// is the opposite of what is stored.
func sameVerdict(run *runs.Run, stored []string) (string, error) {
	all := compare.Of(run)
	if len(all) == 0 || strings.Fields(all[0].Place)[0] != stored[1] { // under the load of the command
		return "", fmt.Errorf("the page says %q, and the run has the comparisons %v", stored[0], all)
	}

	low, errLow := strconv.ParseFloat(stored[2], 64)
	high, errHigh := strconv.ParseFloat(stored[3], 64)
	if errLow != nil || errHigh != nil {
		return "", fmt.Errorf("the page says %q: no interval", stored[0])
	}

	found := all[0].Verdict
	wasFaster, wasSlower := low > doubtless, high < 1/doubtless
	opposite := wasFaster && found == compare.Slower || wasSlower && found == compare.Faster
	if opposite {
		return string(found), fmt.Errorf("the page says %q, and this run %s", stored[0], found)
	}
	return string(found), nil
}
