package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// together is the command of one of several load machines, which are all on one here.
func together(s external, of int, args ...string) []string {
	return append([]string{
		"run", "--strategy", "lua", "--mix", "2x2", "--warmup", "20ms", "--redis", s.url(""), "--join", "nightly",
		"--of", fmt.Sprint(of),
	}, args...)
}

// startTogether starts so many of them. The first to be started is load machine 1.
func startTogether(t *testing.T, s external, of int, args ...string) (all []*child) {
	t.Helper()
	for i := range of {
		c := startChild(t, together(s, of, args...)...)
		c.told(fmt.Sprintf("joined nightly as load machine %d of %d", i+1, of))
		all = append(all, c)
	}
	return all
}

// allTrade returns when somebody on each load machine has sold something, by accounts 1, 3, 5 and so on.
func (e external) allTrade(t *testing.T, of int) {
	t.Helper()
	for i := range of {
		account := fmt.Sprintf("marketsim:{nightly}:users:%d", 2*i+1)
		eventually(t, "a sale of load machine "+fmt.Sprint(i+1), func() bool {
			return e.conn.HGet(t.Context(), account, "funds").Val() > "1000000000000"
		})
	}
}

// TestJoinedRun: three load machines of 2x2 are one run of 6x6. One of them shows it, and it can be compared with the
// same load from one machine.
func TestJoinedRun(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	dir := t.TempDir()
	all := startTogether(t, s, 3, "--duration", "300ms", "--trials", "6", "--out", filepath.Join(dir, "three"), "--force")
	o := all[0].end().exits(t, exitFine).says(t, "6/6 rounds", "stored in ")
	if text := strings.Join(strings.Fields(o.stdout), " "); !strings.Contains(text, "made together by 3 load machines") {
		t.Errorf("the report does not say by how many machines:\n%s", o.stdout)
	}
	for _, c := range all[1:] {
		if other := c.end().exits(t, exitFine).says(t, "load machine 1 of 3 reports"); other.stdout != "" {
			t.Errorf("another machine reports\n%s", other.stdout)
		}
	}
	s.holds(t)
	res := parseFile(t, filepath.Join(dir, "three", runFile))
	if c := res.Manifest.Config; c.LoadMachines != 3 || c.Mixes[0] != "6x6" || len(res.Rounds()) != 6 {
		t.Errorf("%d load machines, mixes %q, %d rounds:\n%s", c.LoadMachines, c.Mixes, len(res.Rounds()), o.stdout)
	}
	for _, r := range res.Rows {
		if r.Name() != "lua 6x6" || r.Status != result.Complete || !r.Audit.OK || r.Joined.Of != 3 || len(r.PerBuyer) != 6 {
			t.Errorf("%s is %s by %+v, audit %+v", r.Name(), r.Status, r.Joined, r.Audit)
		}
	}

	marketsim(t, "run", "--strategy", "lua", "--mix", "6x6", "--warmup", "20ms", "--warmup-max", "20ms", "--duration", "300ms",
		"--trials", "6", "--redis", s.url(""), "--out", filepath.Join(dir, "one")).exits(t, exitFine)
	marketsim(t, "compare", filepath.Join(dir, "one"), filepath.Join(dir, "three")).exits(t, exitFine).
		says(t, "load machines", "lua", "6x6")
	s.holds(t)
}

// TestJoinedRunLosesAMachine, the first, by SIGKILL: the next one reports what there is, and removes every key.
func TestJoinedRunLosesAMachine(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	all := startTogether(t, s, 3, "--duration", "10m", "--json", "-")
	s.allTrade(t, 3)
	all[0].kill()
	o := all[1].end().exits(t, exitEnvironment).says(t, "incomplete: 0 of 1 row complete",
		"row lua 6x6: load machine 1 was lost: it was silent for 5s")
	all[2].end().exits(t, exitEnvironment).says(t, "load machine 2 of 3 reports", "load machine 1 was lost")
	row := parse(t, o.stdout).Rows[0]
	if row.Status != result.Incomplete || !row.Audit.Done || !row.Audit.OK || fmt.Sprint(row.Joined.Lost) != "[1]" || row.Bought == 0 {
		t.Errorf("the row is %s without %v, audit %+v", row.Status, row.Joined.Lost, row.Audit)
	}
	s.holds(t)
}

// TestJoinRefused: who has other settings, who comes too late, and who waits in vain, which leaves nothing.
func TestJoinRefused(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	s.conn.Set(t.Context(), "marketsim:{nightly}2:run", "not ours", 0)
	alone := marketsim(t, together(s, 2, "--join-wait", "1ms")...)
	alone.exits(t, exitEnvironment).says(t, "1 of 2 load machines joined nightly within 1ms: start the others with the same "+
		"--join nightly --of 2, against the same server")
	s.holds(t, "marketsim:{nightly}2:run")

	first := startChild(t, together(s, 2, "--duration", "10m")...)
	first.told("joined nightly as load machine 1 of 2")
	marketsim(t, together(s, 2, "--duration", "5m")...).exits(t, exitUsage).
		says(t, "--duration is 5m0s here, and 10m0s on the first load machine of nightly")
	marketsim(t, together(s, 3, "--duration", "10m")...).exits(t, exitUsage).says(t, "--of is 3 here, and 2 on the first")
	second := startChild(t, together(s, 2, "--duration", "10m")...)
	s.allTrade(t, 2)
	marketsim(t, together(s, 2, "--duration", "10m")...).exits(t, exitUsage).says(t, "nightly is under way with 2 load machines")

	first.kill()
	second.kill()
	var late outcome
	eventually(t, "that both are known to be gone", func() bool {
		late = marketsim(t, together(s, 2, "--duration", "10m", "--join-wait", "1ms")...)
		return late.code == exitEnvironment
	})
	_, command, _ := strings.Cut(late.says(t, "all load machines of nightly are gone; remove what they left with ").stderr,
		"remove what they left with marketsim ")
	marketsim(t, strings.Fields(strings.ReplaceAll(command, "'", ""))...).exits(t, exitFine).says(t, "removed ")
	s.holds(t, "marketsim:{nightly}2:run")
}
