package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/marketsim/marketsim/strategies/catalogue"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, path); got != want {
		t.Errorf("%s differs; if it should, run the test with -update. Got:\n%s", path, got)
	}
}

// widestLine is what help and lists should fit in.
const widestLine = 130

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"marketsim.txt": nil,
		"run.txt":       {"run", "--help"},
		"reproduce.txt": {"reproduce", "--help"},
		"report.txt":    {"help", "report"},
		"check.txt":     {"check", "--help"},
		"clean.txt":     {"clean", "--help"},
		"list.txt":      {"list"},
		"faults.txt":    {"faults", "--help"},
		"scenarios.txt": {"list", "--scenarios"},
	} {
		o := marketsim(t, args...).exits(t, exitFine)
		golden(t, name, o.stdout)
		for line := range strings.Lines(o.stdout) {
			if utf8.RuneCountInString(line) > widestLine+1 {
				t.Errorf("%s: a line is wider than %d columns:\n%s", name, widestLine, line)
			}
		}
	}
	if help := marketsim(t, "--help").stdout; help != marketsim(t).stdout {
		t.Errorf("marketsim alone does not print its help, which is\n%s", help)
	}
}

func TestListNamesEverything(t *testing.T) {
	o := marketsim(t, "list").exits(t, exitFine)
	c := catalogue.Full()
	for _, s := range c.Strategies {
		o.says(t, "\n"+s.Name, s.Source)
	}
	for _, k := range c.Locks {
		o.says(t, "\n"+k.Name, k.Source)
	}
}

func TestVersion(t *testing.T) {
	o := marketsim(t, "version").exits(t, exitFine)
	if fields := strings.Fields(o.stdout); len(fields) != 4 || fields[0] != "marketsim" || !strings.HasPrefix(fields[2], "go") {
		t.Errorf("the version is %q", o.stdout)
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--strategy", ""}, "watch\ncoarse\nfine\nfine-wallet\nunsafe\n"},
		{[]string{"run", "--strategy", "watch,"}, "watch,watch\nwatch,coarse\nwatch,fine\nwatch,fine-wallet\nwatch,unsafe\n"},
		{[]string{"run", "--mix", ""}, "1x1\n5x1\n5x5\n"},
		{[]string{"run", "--backend", ""}, "url\nlocal\ncontainer\nembedded\n"},
		{[]string{"reproduce", "--tables", ""}, "6-1\n6-2\n6-3\n"},
		{[]string{"faults", "--format", ""}, "text\nmarkdown\njson\n"},
		{[]string{"report", "--format", ""}, "text\nmarkdown\ncsv\njson\n"},
	} {
		o := marketsim(t, append([]string{"__complete"}, c.args...)...).exits(t, exitFine)
		if got, _, _ := strings.Cut(o.stdout, ":"); got != c.want {
			t.Errorf("%v offers %q, want %q", c.args, got, c.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if o := marketsim(t, "completion", shell).exits(t, exitFine); !strings.Contains(o.stdout, "marketsim") {
			t.Errorf("no completion for %s", shell)
		}
	}
}
