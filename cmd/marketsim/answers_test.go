package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
)

// The commands of docs/answers.md that measure, each with what it finds; and what is found at one mix.
var (
	answered = regexp.MustCompile(`(?m)^    marketsim ((?:compare|run) .+?) +# (.+)$`)
	ratioAt  = regexp.MustCompile(`^at (\S+) (faster|slower|no difference|not decided)(?:: (\S+) times \((\S+) to (\S+)\))?$`)
	triesAt  = regexp.MustCompile(`^at (\S+) (\S+) tries a purchase`)
)

// doubtless is how far from 1 the interval of a ratio must lie so that a short run on another machine cannot find the opposite.
const doubtless = 1.25

// TestAnswers runs each command of docs/answers.md for a short time, at its first mix: it finds what is stored, or does not
// decide, but never the opposite of what is beyond doubt. What 'marketsim faults' finds is compared in package fault. It
// measures, so by default only the first command is run, and all of them with MARKETSIM_ANSWERS=all. A machine that stands
// still at the wrong moment can make a command fail, which is then run again, three times in all.
func TestAnswers(t *testing.T) {
	server := testkit.Local(t).Target.Addr
	page, err := os.ReadFile("../../docs/answers.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := answered.FindAllStringSubmatch(string(page), -1)
	if len(commands) < 10 {
		t.Fatalf("only %d commands were found", len(commands))
	}
	if os.Getenv("MARKETSIM_ANSWERS") != "all" {
		commands = commands[:1]
	}
	played := map[string]bool{}
	for _, c := range commands {
		if played[c[1]] {
			continue
		}
		played[c[1]] = true
		t.Run(c[1], func(t *testing.T) {
			at, first := server, strings.Split(c[2], "; ")[0]
			if strings.Contains(c[1], "delifeq") {
				at = newerAddr(t)
			}
			for try := 1; ; try++ {
				found, err := answer(t, at, strings.Fields(c[1]), first)
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

// answer runs a command for a short time, and returns what it finds. It is an error if that is not what the page says of its
// first mix.
func answer(t *testing.T, server string, args []string, says string) (found string, err error) {
	mix := "5x5"
	for i, arg := range args {
		if arg == "--mix" {
			mix, _, _ = strings.Cut(args[i+1], ",")
			args[i+1] = mix
		}
	}
	args = append(args, "--redis", "redis://"+server, "--warmup", "50ms", "--json", "-")
	if args[0] == "compare" {
		args = append(args, "--trials", "6", "--duration", "100ms")
	} else {
		args = append(args, "--duration", "1s")
	}
	o := marketsim(t, args...)
	if o.code != exitFine {
		return "", fmt.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	run, err := result.ReadRun(strings.NewReader(o.stdout))
	if err != nil {
		return "", err
	}
	if args[0] == "compare" {
		return sameVerdict(run, mix, says)
	}
	return sameTries(run, mix, says)
}

func newerAddr(t *testing.T) string {
	spec := newerSpec(t, "fine:set-px:release=delifeq")
	return testkit.Newer(t, func(_ context.Context, rdb *redis.Client) error { return has(t, rdb, spec) }).Target.Addr
}

// sameVerdict returns an error if the run's only comparison is the opposite of what the page says.
func sameVerdict(run *result.Run, mix, says string) (string, error) {
	stored := ratioAt.FindStringSubmatch(says)
	if stored == nil || stored[1] != mix || len(run.Comparisons) != 1 {
		return "", fmt.Errorf("the page says %q, and the run has %d comparisons", says, len(run.Comparisons))
	}
	low, errLow := strconv.ParseFloat(stored[4], 64)
	high, errHigh := strconv.ParseFloat(stored[5], 64)
	if errLow != nil || errHigh != nil {
		return "", fmt.Errorf("the page says %q: no interval", says)
	}
	found := run.Comparisons[0].Verdict
	if low > doubtless && found == result.Slower || high < 1/doubtless && found == result.Faster {
		return string(found), fmt.Errorf("the page says %q, and this run %s", says, found)
	}
	return string(found), nil
}

// sameTries returns an error if one try a purchase is enough for the page and not for the run, or the other way round.
func sameTries(run *result.Run, mix, says string) (string, error) {
	stored := triesAt.FindStringSubmatch(says)
	if stored == nil || stored[1] != mix || len(run.Rows) != 1 || run.Rows[0].Tries == nil {
		return "", fmt.Errorf("the page says %q, and the run has %d rows", says, len(run.Rows))
	}
	before, err := strconv.ParseFloat(stored[2], 64)
	if err != nil {
		return "", err
	}
	now := run.Rows[0].Tries.Mean
	found := fmt.Sprintf("%.1f tries", now)
	if before > 2 && now <= 1 || before <= 1 && now > 2 {
		return found, fmt.Errorf("the page says %q, and this run %s", says, found)
	}
	return found, nil
}
