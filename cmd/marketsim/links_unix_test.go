//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/marketsim/marketsim/internal/testkit"
)

// openToAll makes a folder that everybody can write, as /tmp is.
func openToAll(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Succeeds(t, os.Chmod(dir, 0o1777))
	return dir
}

// TestNoPlaceForAResult: what cannot take a result is refused before a server is started,
// by every command that stores one, and nothing is made.
func TestNoPlaceForAResult(t *testing.T) {
	t.Parallel()
	commands := map[string][]string{
		runFile: {
			"run --strategy fine --redis redis://127.0.0.1:1",
			"compare watch lua --redis redis://127.0.0.1:1",
			"sweep --strategy watch --axis clients=1,2 --redis redis://127.0.0.1:1",
			"reproduce --redis redis://127.0.0.1:1",
		},
		faultsFile:   {"faults --scenario pause --lock set-px"},
		exploredFile: {"explore watch", "judge -- true"},
	}

	for _, c := range []struct {
		name string
		make func(t *testing.T, file string) (out string)
		says string
	}{
		{"a pipe in the folder", func(t *testing.T, file string) string {
			dir := t.TempDir()
			testkit.Succeeds(t, unix.Mkfifo(filepath.Join(dir, file), 0o600))
			return dir
		}, " is no plain file: remove it, or name another folder"},
		{"a folder in place of the file", func(t *testing.T, file string) string {
			dir := t.TempDir()
			testkit.Succeeds(t, os.Mkdir(filepath.Join(dir, file), 0o700))
			return dir
		}, " is no plain file"},
		{"a pipe in place of the folder", func(t *testing.T, _ string) string {
			pipe := filepath.Join(t.TempDir(), "pipe")
			testkit.Succeeds(t, unix.Mkfifo(pipe, 0o600))
			return pipe
		}, " is no folder: name another place"},
		{"a link that leads nowhere", func(t *testing.T, _ string) string {
			link := filepath.Join(t.TempDir(), "link")
			testkit.Succeeds(t, os.Symlink("nowhere", link))
			return link
		}, " is a link that leads nowhere"},
		{"somebody's link to a file", func(t *testing.T, file string) string {
			dir := openToAll(t)
			testkit.Succeeds(t, os.Symlink(filepath.Join(t.TempDir(), "precious"), filepath.Join(dir, file)))
			return dir
		}, " is a link in a folder that everybody can write"},
		{"somebody's link to a folder", func(t *testing.T, _ string) string {
			link := filepath.Join(openToAll(t), "link")
			testkit.Succeeds(t, os.Symlink(t.TempDir(), link))
			return filepath.Join(link, "..", "link", "below")
		}, " is a link in a folder that everybody can write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for file, lines := range commands {
				for _, line := range lines {
					out := c.make(t, file)
					// --force, so that no line is refused for a result that is there already.
					args := slices.Insert(strings.Fields(line), 1, "--out", out, "--force")
					marketsim(t, args...).exits(t, exitUsage).says(t, "--out: ", c.says)
				}
			}
		})
	}
}

// TestLinkOfOnesOwn stays a link, and what it leads to is replaced.
func TestLinkOfOnesOwn(t *testing.T) {
	t.Parallel()
	stored, dir := storedRun(t), t.TempDir()
	file, link := filepath.Join(t.TempDir(), "real.txt"), filepath.Join(dir, "link.txt")
	testkit.Succeeds(t, os.WriteFile(file, []byte("old"), 0o600))
	testkit.Succeeds(t, os.Symlink(file, link))
	marketsim(t, "report", stored, "-o", link).exits(t, exitFine)
	if target, err := os.Readlink(link); err != nil || target != file ||
		strings.HasPrefix(read(t, file), "old") {
		t.Errorf("the link leads to %q, %v; %q", target, err, read(t, file))
	}

	testkit.Succeeds(t, os.Chmod(dir, 0o777))
	before := read(t, file)
	marketsim(t, "report", stored, "-o", link).exits(t, exitUsage).
		says(t, "-o: "+link+
			" is a link in a folder that everybody can write: name the place that it leads to, "+file)
	if read(t, file) != before {
		t.Error("the file was replaced all the same")
	}
}

// TestReportOfALink: a link to a folder of results is read like the folder.
func TestReportOfALink(t *testing.T) {
	t.Parallel()
	stored := storedRun(t)
	link := filepath.Join(t.TempDir(), "latest")
	testkit.Succeeds(t, os.Symlink(stored, link))
	through := marketsim(t, "report", link, "--format", "csv").exits(t, exitFine)
	straight := marketsim(t, "report", stored, "--format", "csv").exits(t, exitFine)
	if strings.ReplaceAll(through.stdout, link, stored) != straight.stdout {
		t.Errorf("through the link it prints\n%s\nand not\n%s", through.stdout, straight.stdout)
	}
}

func TestNoPlaceForAHistory(t *testing.T) {
	t.Parallel()
	pipe, link := filepath.Join(t.TempDir(), "pipe"), filepath.Join(openToAll(t), "link")
	testkit.Succeeds(t, unix.Mkfifo(pipe, 0o600))
	testkit.Succeeds(t, os.Symlink(t.TempDir(), link))
	second := t.TempDir() // in which the second round's folder is none
	testkit.Succeeds(t, os.WriteFile(filepath.Join(second, "round-02"), nil, 0o600))
	for dir, says := range map[string]string{
		pipe:   " is no folder",
		second: "round-02 is no folder",
		link:   " is a link in a folder that everybody can write",
	} {
		marketsim(t, "run", "--strategy", "fine", "--trials", "6",
			"--redis", "redis://127.0.0.1:1", "--history", dir).
			exits(t, exitUsage).says(t, "--history: ", says)
	}
}
