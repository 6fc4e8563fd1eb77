package main

import (
	"context"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/marketsim/marketsim/internal/testkit"
)

// TestHelp: a newcomer reads it in a screen and a half, and each flag stands
// under a heading.
func TestHelp(t *testing.T) {
	t.Parallel()
	const screen = 40
	flag := regexp.MustCompile(`(?m)^ +(-\w, )?--\w`)

	for _, command := range []string{
		"run", "compare", "sweep", "reproduce", "report", "check", "clean",
		"faults", "list", "explore", "adapter",
	} {
		o := marketsim(t, command, "--help").exits(t, exitFine)
		if again := marketsim(t, "help", command).exits(t, exitFine); again.stdout != o.stdout {
			t.Errorf("help %s prints\n%s\nand --help\n%s", command, again.stdout, o.stdout)
		}
		n, lines := len(flag.FindAllString(o.stdout, -1)), strings.Count(o.stdout, "\n")
		if n > 38 || lines > 3*screen/2 {
			t.Errorf("%s has %d flags and %d lines", command, n, lines)
		}

		for line := range strings.Lines(o.stdout) {
			if utf8.RuneCountInString(line) > helpWidth+1 {
				t.Errorf("%s: a line is wider than %d columns:\n%s", command, helpWidth, line)
			}
		}
	}

	for _, cmd := range newRoot(new(program)).Commands() {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("help/%s.txt lacks the line, the text or the examples", cmd.Name())
		}
	}

	marketsim(t, "run", "--help").says(t, "\nLoad:\n", "\nMeasuring:\n", "\nServer:\n", "\nOutput:\n")
	help := marketsim(t, "--help").exits(t, exitFine).stdout
	if help != marketsim(t).stdout || !strings.Contains(help, "reproduce") {
		t.Errorf("marketsim alone does not print its help, which is\n%s", help)
	}
	marketsim(t, "--version").exits(t, exitFine).says(t, "marketsim version ")
}

type writing func(b []byte)

func (w writing) Write(b []byte) (int, error) { w(b); return len(b), nil }

// TestExamples: those of each page of help are parsed, and with MARKETSIM_LONG they run in
// a fresh folder, in their order. What takes long is interrupted: a run after its first
// row, or after one of each strategy where the page reports it, since few purchases have no
// figure of latencies, and faults before their first finding where the page does not report
// it. What needs a server or a program of the user's is parsed alone.
func TestExamples(t *testing.T) {
	if testkit.Raced {
		t.Skip("each command that is run here has tests of its own, which look for races")
	}

	// What another program reads, and what a line explains.
	rest := regexp.MustCompile(`\s{2,}.*| [|>&].*`)
	early := regexp.MustCompile(`(?m)^1/\d|, in .* within |scenarios? with .*\nbackend: `)
	aRound := regexp.MustCompile(`(?m)^3/\d`)

	root := newRoot(new(program))
	for _, page := range append(root.Commands(), root) {
		t.Run(page.Name(), func(t *testing.T) {
			t.Chdir(t.TempDir())
			for line := range strings.Lines(page.Example) {
				typed := rest.ReplaceAllString(strings.TrimSpace(line), "")
				args := strings.Fields(strings.ReplaceAll(typed, "'", ""))[1:] // no quoted word has a space
				cmd, words, err := newRoot(new(program)).Find(args)
				if err == nil {
					err = cmd.ParseFlags(words)
				}
				testkit.Succeeds(t, err)

				theirs := cmd.Name() == "judge" && !cmd.Flags().Changed("adapter")
				if theirs || strings.Contains(line, "--redis") || !testkit.Long() {
					continue
				}

				if cmd.Flags().Lookup("duration") != nil {
					args = withFlags(args, "--duration", "300ms", "--warmup", "0s")
				}

				ctx, stop := context.WithCancel(t.Context())
				var said transcript
				err = run(ctx, args, strings.NewReader(""), io.Discard, writing(func(b []byte) {
					_, _ = said.Write(b)
					enough := early
					if page.Name() == "report" {
						enough = aRound
					}
					if enough.MatchString(said.String()) {
						stop()
					}
				}))
				if !slices.Contains([]int{exitFine, exitInterrupted, exitViolation}, exitCode(err)) {
					t.Errorf("%s: %v", line, err)
				}
				stop()
			}
		})
	}
}

// TestCompletion: a shell is offered the names that begin as what was typed, of a
// list those of its last element.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"run --strategy fi":             "fine fine-wallet fine:set-px",
		"run --strategy watch,coarse:q": "watch,coarse:queue",
		"compare lua wat":               "watch watch-item",
		"run lua wat":                   "watch watch-item",
		"run watch,coarse:q":            "watch,coarse:queue",
		"sweep lua fine:q":              "fine:queue",
		"faults set-px+":                "set-px+watchdog",
		"list redis-":                   "redis-py redis-rb redis-py-watch",
		"faults --lock redsync,set-px+": "redsync,set-px+watchdog",
		"faults --scenario pause,lot":   "pause,lottery",
		"explore fenced:":               "fenced:fencing=off fenced:fencing=on",
		"report DIR --lock redis":       "redisson redislock",
		"report " + storedRun(t) + " ../../results/explored --figure ": "throughput set-px",
		"report nowhere --figure ":                                     "",
	} {
		o := marketsim(t, append([]string{"__complete"}, strings.Split(typed, " ")...)...).
			exits(t, exitFine)
		offered := strings.Split(o.stdout, "\n")

		for _, name := range strings.Fields(want) {
			if !slices.Contains(offered, name) {
				t.Errorf("%s: %s is not offered, but %q", typed, name, offered)
			}
		}

		// The last two lines are a number for the shell and what follows its line end.
		for _, name := range offered[:len(offered)-2] {
			last := typed[strings.LastIndex(typed, " ")+1:]
			if !strings.HasPrefix(name, last) || want == "" {
				t.Errorf("%s: %s is offered", typed, name)
			}
		}
	}

	marketsim(t, "--help").says(t, "marketsim completion --help")
	marketsim(t, "completion", "--help").exits(t, exitFine).says(t, "bash", "zsh")
}

// TestPagesNameWhatThereIs: every command line of marketsim in a page names a
// command, and flags that it has.
func TestPagesNameWhatThereIs(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^    (?:\S+=\S+ )?(?:go run ./cmd/)?marketsim ((?:[^#>\n\\]|>=)+)`)
	pages := testkit.Must(filepath.Glob("../../docs/*.md"))(t)
	commands := 0
	for _, page := range append(pages,
		"../../README.md", "../../CONTRIBUTING.md", "../../results/README.md",
	) {
		for _, found := range line.FindAllStringSubmatch(read(t, page), -1) {
			commands++
			cmd, args, err := newRoot(new(program)).Find(strings.Fields(found[1]))
			if err == nil {
				err = cmd.ParseFlags(args)
			}
			if err == nil && cmd.Args != nil {
				err = cmd.Args(cmd, cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %s: %v", page, found[1], err)
			}
		}
	}

	// A pattern that no longer fits the pages would find no mistake in them.
	if commands < 100 {
		t.Errorf("only %d commands were found", commands)
	}
}
