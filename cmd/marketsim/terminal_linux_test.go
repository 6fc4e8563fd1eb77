package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/marketsim/marketsim/internal/testkit"
)

// openTerminal returns a pseudo-terminal: what is written to tty can be read from screen.
func openTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		testkit.Require(t, "terminal", err.Error())
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	number := testkit.Must(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	testkit.Succeeds(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	testkit.Succeeds(t, err)
	return screen, tty
}

// onTerminal returns what a command shows to a person, on a terminal with this many
// columns; 0: it does not say.
func onTerminal(t *testing.T, columns uint16, env string, args ...string) string {
	t.Helper()
	screen, tty := openTerminal(t)
	testkit.Succeeds(t, unix.IoctlSetWinsize(
		int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))

	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"=1", env)
	cmd.Stdout, cmd.Stderr = tty, tty
	testkit.Succeeds(t, cmd.Start())
	tty.Close()

	shown, _ := io.ReadAll(screen) // ends with EIO when nobody holds the terminal any more
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, shown)
	}
	return string(shown)
}

// TestColorOnATerminal: a report has it unless NO_COLOR is set, and uses the width that
// there is.
func TestColorOnATerminal(t *testing.T) {
	t.Parallel()
	if shown := onTerminal(
		t, 0, "NO_COLOR=", "report", storedRun(t),
	); !strings.Contains(shown, "\x1b[32m") {
		t.Errorf("no color on a terminal:\n%q", shown)
	}

	for columns, want := range map[uint16]int{0: 80, 60: 60, 150: 150} {
		shown, widest := onTerminal(t, columns, "NO_COLOR=1", "report", storedRun(t)), 0
		for line := range strings.Lines(shown) {
			widest = max(widest, utf8.RuneCountInString(strings.TrimSpace(line)))
		}
		if strings.Contains(shown, "\x1b[") || widest > want || widest < want*3/4 {
			t.Errorf("color in spite of NO_COLOR, or the widest line of %d columns has %d:\n%q",
				columns, widest, shown)
		}
	}
}

// TestProgressOnATerminal: finished rows stay, whole and within the terminal's width; what
// is under way is replaced.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	args := "run --strategy fine:queue:look=2s,lua --mix 1x1 --backend embedded --duration 100ms --warmup 0s --format json"
	shown := onTerminal(t, 80, "TERM=xterm", strings.Fields(args)...)

	for _, line := range []string{
		"1/2 fine:queue:look=2s 1x1: its market is prepared", "1/2 fine:queue:look=2s 1x1, trial 1: ",
		"1 of 2 done, about ", "2/2 lua 1x1, trial 1: ",
	} {
		if !strings.Contains(shown, clearLine+line) {
			t.Errorf("%q is not in\n%q", line, shown)
		}
	}

	for _, line := range regexp.MustCompile(`[\r\n]+(\x1b\[K)?`).Split(shown, -1) {
		if !strings.HasPrefix(line, "{") && utf8.RuneCountInString(line) > 80 {
			t.Errorf("wider than the terminal: %q", line)
		}
	}

	kept := regexp.MustCompile(`\x1b\[K(1/2 fine:queue[^\x1b]* trial 1: [^\x1b]*)`).FindString(shown)
	if !strings.HasSuffix(strings.TrimSpace(kept), "audit ok") {
		t.Errorf("the first row is not kept whole: %q", kept)
	}
}

// TestDumbTerminal: one that does not understand the codes gets none, and neither does one on
// which nobody wants color.
func TestDumbTerminal(t *testing.T) {
	t.Parallel()
	args := strings.Fields(
		"run --strategy fine,lua --mix 1x1 --backend embedded --duration 100ms --warmup 0s")
	for _, env := range []string{"TERM=dumb", "NO_COLOR=1"} {
		shown := onTerminal(t, 80, env, args...)
		if strings.Contains(shown, "\x1b") {
			t.Errorf("%s: codes for a terminal that does not want them:\n%q", env, shown)
		}
		// Without them a line can still be replaced, but by a dumb terminal.
		if live := strings.Contains(shown, "its market is prepared"); live != (env == "NO_COLOR=1") {
			t.Errorf("%s: the row under way is shown: %v\n%q", env, live, shown)
		}
	}
}

// TestQuiet: each command that has --quiet prints its result, and nothing else.
func TestQuiet(t *testing.T) {
	t.Parallel()
	row := " --backend embedded --duration 50ms --warmup 0s --quiet"
	for _, command := range []string{
		"run --strategy fine,lua --mix 1x1 --out " + t.TempDir() + "/run" + row,
		"run --strategy fine --mix 1x1 --history " + t.TempDir() + "/history" + row,
		"reproduce --trials 1" + row, // compare and sweep print as these do
		"faults --scenario pause --lock watch --quiet --out " + t.TempDir() + "/faults",
	} {
		t.Run(command, func(t *testing.T) {
			if strings.HasPrefix(command, "faults") {
				testkit.Local(t) // skips without a server
			}
			o := marketsim(t, strings.Fields(command)...).exits(t, exitFine)
			if o.stderr != "" || o.stdout == "" {
				t.Errorf("beside the result it prints %q", o.stderr)
			}
		})
	}
}

// TestNowhereToWrite: help that cannot be printed is a failure.
func TestNowhereToWrite(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testkit.Require(t, "/dev/full", err.Error())
	}
	defer full.Close()
	for _, args := range []string{
		"--help", "run --help", "help run", "--version", "list", "completion bash",
	} {
		err := run(t.Context(), strings.Fields(args), strings.NewReader(""), full, io.Discard)
		if code := exitCode(err); code != exitEnvironment || !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: exit code %d, %v", args, code, err)
		}
	}
}

// TestPipeIsNoFile: one that nobody writes to would be read for ever.
func TestPipeIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), runFile)
	testkit.Succeeds(t, unix.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, filepath.Dir(pipe)} {
		marketsim(t, "report", path).exits(t, exitUsage).says(t, pipe+" is not a file")
	}
}
