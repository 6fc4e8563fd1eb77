package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
)

// longWords are what somebody may paste by mistake in place of a name: 10 MB of one word,
// and 10^6 words, with MARKETSIM_LONG, and a tenth of them without.
func longWords() map[string]string {
	part := 10
	if os.Getenv("MARKETSIM_LONG") != "" {
		part = 1
	}
	return map[string]string{
		"one word":   strings.Repeat("x", 10<<20/part),
		"many words": strings.Repeat("word ", 1e6/part),
	}
}

// soon is what they may take: a comparison of every letter with every other takes minutes.
const soon = time.Second

// An error repeats no more than the ends of what it is about, comes within a second, and
// says what to do next.
func TestErrorsAboutLongWords(t *testing.T) {
	const here = "LONG"

	for name, long := range longWords() {
		for _, command := range []string{
			here,
			"help " + here,
			"run --strategy " + here,
			"run --strategy fine:" + here,
			"run --strategy fine:set-px:" + here + "=1",
			"run --strategy fine:set-px:ttl=" + here,
			"run --strategy lua --mix " + here,
			"run --strategy lua --format " + here,
			"run --" + here,
			"compare lua " + here,
			"sweep --strategy lua,watch --axis hold=" + here,
			"check " + here,
			"faults --scenario " + here,
			"explore " + here,
			"explore --replay x5/" + here,
			"judge --of " + here + " -- true",
			"judge --adapter " + here,
			"list " + here,
			"report " + here,
			"report ../../results/explored --figure " + here,
			"report ../../results/explored --lock " + here,
		} {
			// Split before it is replaced: the many words stay one argument.
			args := strings.Fields(command)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], here, long)
			}

			t.Run(command+", "+name, func(t *testing.T) {
				var o outcome
				testkit.Within(t, soon, "the error", func() { o = marketsim(t, args...) })
				o.exits(t, exitUsage).says(t, " bytes left out)", "--help')")
				if n := len(o.stderr); n > 8<<10 {
					t.Errorf("the error has %d bytes", n)
				}
			})
		}
	}
}

// A stored result may be somebody else's, and hold words of any length.
func TestReportOfLongWords(t *testing.T) {
	stored, err := os.ReadFile("../../results/judged/get-then-del/explored.json")
	testkit.Succeeds(t, err)
	for name, long := range longWords() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := strings.ReplaceAll(string(stored), `"shows": "`, `"shows": "`+long)
			testkit.Succeeds(t, os.WriteFile(filepath.Join(dir, exploredFile), []byte(text), 0o666))

			for _, args := range [][]string{
				{"report", dir},
				{"report", dir, "--format", asMarkdown},
			} {
				testkit.Within(t, soon, strings.Join(args, " "), func() {
					o := marketsim(t, args...).exits(t, exitFine)
					if said := strings.Join(strings.Fields(o.stdout), " "); !strings.Contains(said, "bytes left out)") {
						t.Errorf("it does not say what it leaves out: %d bytes", len(said))
					}
				})
			}
		})
	}
}

// What a judged program answers and writes to standard error is shortened in an error.
func TestJudgeOfLongAnswers(t *testing.T) {
	testkit.Local(t)
	// It needs nothing but a shell: there may be no other program.
	const program = `x=x; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do x=$x$x; done
		echo $x >&2; read line; echo $x; while read line; do :; done`
	o := marketsim(t, "judge", "--", "/bin/sh", "-c", program)
	o.exits(t, exitUsage).says(t, `said "xxxx`, " bytes left out)", "its last lines are")
	if n := len(o.stderr); n > 12<<10 {
		t.Errorf("the error has %d bytes: %s", n, o.stderr[n-200:])
	}
}
