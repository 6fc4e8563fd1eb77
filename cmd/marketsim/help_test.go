package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

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

// widestLine is what help should fit in.
const widestLine = 130

func TestGoldenHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"marketsim.txt": nil,
		"run.txt":       {"run", "--help"},
		"compare.txt":   {"compare", "--help"},
		"sweep.txt":     {"sweep", "--help"},
		"reproduce.txt": {"reproduce", "--help"},
		"report.txt":    {"help", "report"},
		"plot.txt":      {"plot", "--help"},
		"check.txt":     {"check", "--help"},
		"clean.txt":     {"clean", "--help"},
		"list.txt":      {"list"},
		"locks.txt":     {"list", "--locks"},
		"set-px.txt":    {"list", "set-px"},
		"faults.txt":    {"faults", "--help"},
		"scenarios.txt": {"list", "--scenarios"},
	} {
		o := marketsim(t, args...).exits(t, exitFine)
		golden(t, name, o.stdout)
		for line := range strings.Lines(o.stdout) {
			widest := widestLine
			if args != nil && args[0] == "list" {
				widest = report.Width
			}
			if utf8.RuneCountInString(line) > widest+1 {
				t.Errorf("%s: a line is wider than %d columns:\n%s", name, widest, line)
			}
		}
	}
	if help := marketsim(t, "--help").stdout; help != marketsim(t).stdout {
		t.Errorf("marketsim alone does not print its help, which is\n%s", help)
	}
}

// screen is how many lines a terminal has.
const screen = 24

// TestListNamesEverything on a screen, and tells the rest of each name.
func TestListNamesEverything(t *testing.T) {
	o := marketsim(t, "list").exits(t, exitFine)
	if n := strings.Count(o.stdout, "\n"); n >= screen {
		t.Errorf("%d lines do not fit a screen:\n%s", n, o.stdout)
	}
	all := marketsim(t, "list", "--format", "csv").exits(t, exitFine)
	c := catalogue.Full()
	for _, s := range c.Strategies {
		o.says(t, "\n  "+s.Name+" ")
		all.says(t, "\nstrategy,"+s.Name+",", s.Source)
		one := told(t, s.Name).says(t, "strategy "+s.Name+"\n", s.Source)
		for _, p := range s.Params {
			one.says(t, p.Name+"="+p.Default)
		}
	}
	for _, k := range c.Locks {
		o.says(t, k.Name)
		all.says(t, "\nlock,"+k.Name+",", k.Wakes)
		one := told(t, k.Name).says(t, "lock "+k.Name+"\n", strings.Fields(k.Source)[0], k.Wakes)
		for _, p := range k.Params {
			one.says(t, p.Name+"="+p.Default)
		}
	}
	for _, sc := range everyScenario() {
		all.says(t, "\nscenario,"+sc.Name+",")
		told(t, sc.Name).says(t, "scenario "+sc.Name+"\n", sc.Promise)
	}
	marketsim(t, "list", "setpx").exits(t, exitUsage).says(t, `did you mean "set-px"?`)
	marketsim(t, "list", "set-px", "--locks").exits(t, exitUsage).says(t, "either a name or")
}

// told is what list says of a name, without the breaks of lines.
func told(t *testing.T, name string) outcome {
	o := marketsim(t, "list", name).exits(t, exitFine)
	o.stdout += strings.Join(strings.Fields(o.stdout), " ")
	return o
}

func TestVersion(t *testing.T) {
	o := marketsim(t, "version").exits(t, exitFine)
	if fields := strings.Fields(o.stdout); len(fields) != 4 || fields[0] != "marketsim" || !strings.HasPrefix(fields[2], "go") {
		t.Errorf("the version is %q", o.stdout)
	}
	if flag := marketsim(t, "--version").exits(t, exitFine); flag.stdout != o.stdout {
		t.Errorf("--version prints %q, and version %q", flag.stdout, o.stdout)
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--strategy", ""}, strings.Join(names(), "\n") + "\n"},
		{[]string{"run", "--strategy", "watch,"}, "watch," + strings.Join(names(), "\nwatch,") + "\n"},
		{[]string{"run", "--strategy", "watch:"}, "watch:timeout=\nwatch:list-timeout=\nwatch:gate=\nwatch:backoff=\n" +
			"watch:base=\nwatch:cap=\nwatch:jitter=\nwatch:tries=\n"},
		{[]string{"check", "--format", ""}, "text\nmarkdown\ncsv\njson\n"},
		{[]string{"run", "--mix", ""}, "1x1\n5x1\n5x5\n"},
		{[]string{"run", "--backend", ""}, "url\n" + strings.Join(private(), "\n") + "\n"},
		{[]string{"sweep", "--strategy", "watch,"}, "watch," + strings.Join(names(), "\nwatch,") + "\n"},
		{[]string{"sweep", "--axis", ""}, "clients=\nhot=\nhold=\nrtt=\nmarkets=\n"},
		{[]string{"faults", "--format", ""}, "text\nmarkdown\ncsv\njson\n"},
		{[]string{"report", "--format", ""}, "text\nmarkdown\ncsv\njson\ngobench\nhgrm\nhtml\n"},
		{[]string{"plot", stored, "--figure", "c"}, "throughput\ncost\ntries\nfairness\n"},
	} {
		o := marketsim(t, append([]string{"__complete"}, c.args...)...).exits(t, exitFine)
		if got := o.stdout[:strings.LastIndex(o.stdout, ":")]; got != c.want {
			t.Errorf("%v offers %q, want %q", c.args, got, c.want)
		}
	}
	o := marketsim(t, "__complete", "run", "--strategy", "watch,fine:").exits(t, exitFine)
	for _, k := range catalogue.Full().Locks {
		o.says(t, "watch,fine:"+k.Name+"\n")
	}
	o.says(t, "fine:set-px+watchdog\n").silent(t, "setnx+watchdog", "fine:ttl")
	marketsim(t, "__complete", "run", "--strategy", "coarse,fine:setnx:poll=1ms:").exits(t, exitFine).
		says(t, "coarse,fine:setnx:poll=1ms:timeout=\n").silent(t, "poll=1ms:poll=")
	marketsim(t, "__complete", "faults", "--lock", "watch,exists-set:").exits(t, exitFine).
		says(t, "watch,exists-set:poll=\n").silent(t, "timeout=")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if o := marketsim(t, "completion", shell).exits(t, exitFine); !strings.Contains(o.stdout, "marketsim") {
			t.Errorf("no completion for %s", shell)
		}
	}
}
