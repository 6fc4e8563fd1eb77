package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

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
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return screen, tty
}

// onTerminal returns what a command shows to a person.
func onTerminal(t *testing.T, env string, args ...string) string {
	t.Helper()
	return onTerminalOf(t, 0, 0, env, args...)
}

// onTerminalOf is onTerminal, of a size.
func onTerminalOf(t *testing.T, width, height uint16, env string, args ...string) string {
	t.Helper()
	screen, tty := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"=1", env)
	cmd.Stdout, cmd.Stderr = tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	shown, _ := io.ReadAll(screen) // ends with EIO when nobody holds the terminal any more
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, shown)
	}
	return string(shown)
}

func TestColorOnATerminal(t *testing.T) {
	t.Parallel()
	if shown := onTerminal(t, "NO_COLOR=", "report", stored); !strings.Contains(shown, "\x1b[32m") {
		t.Errorf("no color on a terminal:\n%q", shown)
	}
	if shown := onTerminal(t, "NO_COLOR=1", "report", stored); strings.Contains(shown, "\x1b[") {
		t.Errorf("color in spite of NO_COLOR:\n%q", shown)
	}
}

// TestTableOnATerminal: where there is room, a table stands from the first row on, and each takes the place of the one
// before.
func TestTableOnATerminal(t *testing.T) {
	t.Parallel()
	args := []string{"run", "--strategy", "fine,watch", "--mix", "1x1", "--trials", "6", "--backend", "embedded",
		"--duration", "20ms", "--warmup", "0s"}
	shown := onTerminalOf(t, 80, 25, "NO_COLOR=1", args...)
	if n := strings.Count(shown, "so far, after "); n != 12 || strings.Count(shown, "A\x1b[J") != 12 {
		t.Errorf("%d tables, want 12, each removed:\n%q", n, shown)
	}
	if strings.Contains(shown, "1/6 rounds") || !strings.Contains(shown, "so far, after 6 of 6 rounds:") {
		t.Errorf("lines in spite of the table, or not every round:\n%q", shown)
	}
	if shown := onTerminalOf(t, 80, 4, "NO_COLOR=1", args...); strings.Contains(shown, "so far") ||
		!strings.Contains(shown, "6/6 rounds of 2 rows, about 0s left") {
		t.Errorf("a table without room, or no lines:\n%q", shown)
	}
}

func TestBarOnATerminal(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"NO_COLOR=", "NO_COLOR=1"} {
		shown := onTerminal(t, env, "run", "--strategy", "fine", "--mix", "1x1", "--backend", "embedded", "--duration", "600ms", "--warmup", "0s")
		if !strings.Contains(shown, "fine 1x1 (row 1 of 1)") || !strings.Contains(shown, "1/1 fine 1x1: ") {
			t.Errorf("%s: no bar, or no line:\n%q", env, shown)
		}
		if strings.Contains(shown, "\x1b[3") != (env == "NO_COLOR=") {
			t.Errorf("%s: color is wrong:\n%q", env, shown)
		}
	}
}
