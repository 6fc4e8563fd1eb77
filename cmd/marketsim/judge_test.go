package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

// TestJudgeUsage: what cannot be judged is refused, and a program that is no
// lock is told why.
func TestJudgeUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"", "which program is judged?"},
		{"--of pauses -- true", "there is no fault \"pauses\""},
		{"--require fair -- true",
			"there is no promise \"fair\"; there is all, exclusive, owner-only-release"},
		{"--require all --purchase -- true", "purchase"},
		{"--purchase --of cancel -- true", "--of cancel is for locks"},
		{"--preemptions -1 -- true", "must be at least 0"},
		{"--pairs 0 -- true", "--pairs at least 1"},
		{"--lease 1ms -- true", "--lease at least 100ms"},
		{"docker run mine", "run marketsim inside it"},
		{"--promise fair -- true", "--promise \"fair\": the only one that can be named is notices-loss"},
		{"--within 0s -- true", "--within must be more than 0"},
		{"--adapter cobol",
			"there is no lock in \"cobol\"; there is one in go, java, laravel, node, php, python, redisson"},
		{"--format csv -- true", "unknown format \"csv\""},
		{"--replay x3/true/lock/d1 -- true", "no token of a schedule in version"},
	} {
		marketsim(t, append([]string{"judge"}, strings.Fields(c.args)...)...).exits(t, 2).says(t, c.says)
	}

	code := exitCode(fmt.Errorf("one-account, after one-item: %w", judge.ErrAdapter))
	if code != exitEnvironment {
		t.Errorf("a later program that cannot be judged: exit code %d, want %d", code, exitEnvironment)
	}

	marketsim(t, "judge", "--adapter", "python").exits(t, 0).
		says(t, "import redis", "flush=True", "lock.acquire(")
	marketsim(t, "judge", "--purchase", "--adapter", "python").exits(t, 0).
		says(t, "inventory:", "return 'bought'")

	testkit.Local(t)
	marketsim(t, "judge", "--", "/bin/cat").exits(t, 2).says(t, `said "acquire rehearsal`)
	marketsim(t, "judge", "--", "/bin/true").exits(t, 2).says(t, "has ended")
	marketsim(t, "judge", "--server", "/nowhere", "--", "/bin/cat").exits(t, 1).says(t, "/nowhere")
}

// TestJudgeIsAskedAgain: a schedule is played again with the lease and the promise that it
// was found with.
func TestJudgeIsAskedAgain(t *testing.T) {
	f := judgeFlags{promise: "notices-loss"}
	f.options.Lease = 2 * time.Second
	if got := strings.Join(f.replayFlags(), " "); got != "--lease 2s --promise notices-loss" {
		t.Errorf("it is asked again with %s", got)
	}
	if got := new(judgeFlags).replayFlags(); len(got) > 0 {
		t.Errorf("without flags it is asked again with %s", got)
	}
}

// TestJudgeIsPlayedAgain: the command that plays a schedule again is one line, in which a shell
// reads the words that were typed, and has the lease with which judge had found it by itself.
func TestJudgeIsPlayedAgain(t *testing.T) {
	t.Parallel()
	f := judgeFlags{promise: "notices-loss", of: []string{"die"}}
	f.options.Command = []string{"python3", "my lock.py", "it's", `"$HOME"`, "a;b*"}
	f.options.Within = time.Minute
	found := findings.Exploration{
		Scheme: f.options.Scheme(),
		Lease:  &findings.JudgedLease{AskedMS: 2000},
	}
	found.Shortest(verify.Violation{Harm: verify.Outlived}, 0, 1, "x5/a_lock/lock/d1")
	res := findings.Explorations{
		Judged:   true,
		Searches: []findings.Exploration{found, {Program: "lock"}},
	}
	f.note(&res)

	line := res.Searches[0].Replay
	read, err := exec.Command("sh", "-c", `printf '%s\n' `+line).Output()
	testkit.Succeeds(t, err)
	words := strings.Split(strings.TrimSuffix(string(read), "\n"), "\n")
	const flags = "--promise notices-loss --lease 2s --replay x5/a_lock/lock/d1"
	want := slices.Concat(strings.Fields("marketsim judge "+flags+" --"), f.options.Command)
	if !slices.Equal(words, want) || strings.Contains(line, "\n") {
		t.Errorf("a shell reads %q\nwant %q", words, want)
	}
	if again := res.Again(res.Searches[0]); again != line {
		t.Errorf("the report has %s", again)
	}
	if res.Searches[1].Replay != "" || res.Bounds.WithinMS != 60000 ||
		!slices.Equal(res.Bounds.Of, f.of) {
		t.Errorf("noted is %+v of %+v", res.Bounds, res.Searches[1])
	}
}

// TestJudgeRequires: --require asks for promises by name, and "all" for those that the lock
// offers.
func TestJudgeRequires(t *testing.T) {
	t.Parallel()
	res := &findings.Explorations{Promises: []verify.PromiseState{
		{Promise: "exclusive", State: "kept"},
		{Promise: "survives a crash", State: "unchecked", Why: "lock: stopped after 9 schedules"},
		{Promise: "fenced", State: "not offered", Why: "it prints no fencing tokens"},
		{Promise: "notices loss", State: "not kept"},
	}}

	const crash = "survives a crash is unchecked: lock: stopped after 9 schedules"
	for require, want := range map[string]string{
		"":                           "",
		"exclusive":                  "",
		"exclusive,survives-a-crash": "--require: " + crash,
		"all":                        "--require: " + crash,
		"fenced":                     "--require: fenced is not offered: it prints no fencing tokens",
		"notices-loss":               "--require: notices loss is not kept",
	} {
		f := judgeFlags{require: strings.Split(require, ",")}
		got := ""
		if err := f.unkept(res); err != nil {
			got = err.Error()
			if code := exitCode(err); code != exitEnvironment {
				t.Errorf("--require %s: exit code %d, want %d", require, code, exitEnvironment)
			}
		}

		if got != want {
			t.Errorf("--require %s: %q, want %q", require, got, want)
		}
	}
}

// TestJudgeProgress: a line says which search is under way, how far it is, and how long it may
// still take.
func TestJudgeProgress(t *testing.T) {
	t.Parallel()
	soFar := search.Summary{Schedules: 62, Faults: 1, Left: 30}
	for want, p := range map[string]judge.Progress{
		"lock: the program rehearses; at most 45s more": {Program: "lock", Left: 45 * time.Second},
		"lock-works: 62 schedules so far, with 0 preemptions and 1 fault; 30 left at least; at most 12s more": {
			Program: "lock-works", Summary: soFar, Left: 12 * time.Second,
		},
		"lock: 62 schedules so far, with 0 preemptions and 1 fault; 30 left at least": {
			Program: "lock", Summary: soFar,
		},
	} {
		if got := progressLine(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestJudgedIsDrawn: what was judged is drawn as what was explored, and says
// what was taken for granted.
func TestJudgedIsDrawn(t *testing.T) {
	one := findings.Exploration{Scheme: "node lock.js", Program: "lock",
		Searched: findings.Searched{Preemptions: 1, Faults: 1, Schedules: 9, Harmful: 2}}
	one.Diagram = &verify.Diagram{
		Clients: []string{"Alice", "Bob"},
		Events:  []verify.Event{{Client: 0, Does: "GET k"}},
	}

	outlived, freed := one, one
	outlived.Shortest(verify.Violation{Harm: verify.Outlived, Text: "a"}, 0, 1, "x5/a/lock/d1")
	freed.Shortest(verify.Violation{Harm: verify.FreedAnothers, Text: "b"}, 0, 1, "x5/b/lock/d1")
	freed.Broken = "owner-only release"

	for _, c := range []struct {
		all   []findings.Exploration
		wants []string
	}{
		{[]findings.Exploration{outlived}, []string{
			"No promise was broken", "outlives its lease", "one request at a time",
		}},
		{[]findings.Exploration{outlived, freed}, []string{
			`BROKEN PROMISE: owner-only release. b (freed another's, in lock)`,
			"marketsim judge --replay", "x5/b/lock/d1 -- node lock.js",
		}},
	} {
		dir := t.TempDir()
		file := testkit.Must(os.Create(filepath.Join(dir, exploredFile)))(t)
		res := findings.Explorations{
			Schema: findings.ExplorationsSchema, Version: "1", Judged: true, Searches: c.all,
		}
		testkit.Succeeds(t, res.Write(file))
		testkit.Succeeds(t, file.Close())
		marketsim(t, "report", dir).exits(t, 0).says(t, append(c.wants, "Judged: node lock.js")...)
	}
}

// TestAdapter: a lock and a strategy answer the lines by which programs are judged.
func TestAdapter(t *testing.T) {
	s := testkit.Local(t)
	keys := testkit.Must(market.NewKeys("adapter:"))(t)

	connect := func() (net.Conn, error) { return redisconn.To(s.Target).Connect(t.Context()) }
	gate := testkit.Must(wire.StartGate(connect))(t)
	t.Cleanup(func() { _ = gate.Close() })
	t.Setenv("REDIS_URL", "redis://"+gate.Addr())
	t.Setenv("KEY_PREFIX", keys.Prefix())

	seeds := suite.Markets()[0]
	rdb := testkit.Dial(t, s)
	seeds.Seed(func(command ...any) { rdb.Do(t.Context(), command...) }, keys)

	for _, c := range []struct{ spec, says, answers string }{
		{"fenced", "acquire a;release;release;acquire a;now",
			"acquired 1;released;lost;acquired 2;error "},
		{"set-px", "release;acquire a;release", "error this is not understood;acquired;released"},
		{"watch", "acquire a;buy 1 2 1 39;buy 1 2 1 40;buy 1 3 1 40;buy 1 2;list 1 2 7;list 1 2 7",
			"error ;price;bought 0;gone;error ;listed;busy"},
	} {
		var out bytes.Buffer
		in := strings.NewReader(strings.ReplaceAll(c.says, ";", "\n"))
		if err := run(t.Context(), []string{"adapter", c.spec}, in, &out, io.Discard); err != nil {
			t.Errorf("%s: %v", c.spec, err)
		}

		answers, want := strings.Split(strings.TrimSpace(out.String()), "\n"),
			strings.Split(c.answers, ";")
		if !slices.EqualFunc(answers, want, strings.HasPrefix) {
			t.Errorf("%s was told %q and answered %q, want %q", c.spec, c.says, answers, c.answers)
		}
	}

	marketsim(t, "adapter", "nothing").exits(t, 2).says(t, "nothing")
	help := marketsim(t, "--help").stdout
	if strings.Contains(help, "\n  adapter ") || !strings.Contains(help, "\n  judge ") {
		t.Errorf("the list of commands is for users, and judge alone needs this one:\n%s", help)
	}
}
