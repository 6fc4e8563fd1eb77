package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// TestWorkload: a run's workload is in its manifest and in every row, the report names it in its head and where it speaks of
// a row, and report draws it again from the file.
func TestWorkload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := marketsim(t, short("run", "--strategy", "watch-item,lua", "--hot", "3", "--mix", "0x2,0x4", "--hold", "1ms", "--rtt", "500us",
		"--backend", "embedded", "--out", dir)...).exits(t, exitFine)
	res := parseFile(t, filepath.Join(dir, runFile))
	want := result.Workload{Hot: 3, HoldMS: 1, RTTMS: 0.5}
	if c := res.Manifest.Config; c.Workload != want || strings.Join(c.Mixes, " ") != "0x2 0x4" || len(res.Rows) != 4 {
		t.Errorf("%+v with mixes %q and %d rows, want %+v", c.Workload, c.Mixes, len(res.Rows), want)
	}
	for _, r := range res.Rows {
		if r.Workload != want || r.Sellers != 0 || !r.Audit.OK {
			t.Errorf("%s: %+v, audit %+v", r.Name(), r.Workload, r.Audit)
		}
	}
	for _, says := range []string{"workload hot=3 hold=1ms rtt=0.5ms", "0x2 hot=3 hold=1ms rtt=0.5ms", "0x4 hot=3 hold=1ms rtt=0.5ms"} {
		if !strings.Contains(unbroken(o).stdout, says) {
			t.Errorf("%q is not in\n%s", says, o.stdout)
		}
	}
	if again := marketsim(t, "report", dir).exits(t, exitFine); again.stdout != o.stdout {
		t.Errorf("report draws\n%s\nand run drew\n%s", again.stdout, o.stdout)
	}
}

// TestLargeMarket: the size of a market is in its rows and their names, and in the CSV.
func TestLargeMarket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := marketsim(t, short("run", "--strategy", "fine", "--mix", "1x2", "--stock", "1500", "--backend",
		"embedded", "--out", dir)...).exits(t, exitFine)
	r := parseFile(t, filepath.Join(dir, runFile)).Rows[0]
	if r.Name() != "fine 1x2 stock=1500" || r.Stock != 1500 || !r.Audit.OK || r.Audit.Items < 2000 {
		t.Errorf("%s: %+v, audit %+v", r.Name(), r.Workload, r.Audit)
	}
	if !strings.Contains(unbroken(o).stdout, "workload stock=1500") {
		t.Errorf("the report does not name it:\n%s", o.stdout)
	}
}

// TestDefaultHotMix: hot items circulate among five buyers unless a mix is given.
func TestDefaultHotMix(t *testing.T) {
	t.Parallel()
	o := marketsim(t, short("run", "--strategy", "fine", "--hot", "1", "--backend", "embedded", "--json", "-")...).exits(t, exitFine)
	if r := parse(t, o.stdout).Rows[0]; r.Name() != "fine 0x5 hot=1" {
		t.Errorf("the row is %s", r.Name())
	}
	o = marketsim(t, short("run", "--strategy", "fine", "--hot", "1", "--sellers", "0", "--buyers", "2", "--backend", "embedded",
		"--json", "-")...).exits(t, exitFine)
	if r := parse(t, o.stdout).Rows[0]; r.Name() != "fine 0x2 hot=1" {
		t.Errorf("the row is %s", r.Name())
	}
}

// TestCompareUnderAWorkload: the pairs are those of the rows under it, and their sentences name it.
func TestCompareUnderAWorkload(t *testing.T) {
	t.Parallel()
	o := marketsim(t, short("compare", "fine", "lua", "--trials", "6", "--hot", "2", "--mix", "0x3", "--backend", "embedded",
		"--json", "-")...).exits(t, exitFine)
	res := parse(t, o.stdout)
	if len(res.Comparisons) != 1 {
		t.Fatalf("%+v", res.Comparisons)
	}
	c := res.Comparisons[0]
	judged := c.Rounds == 6 || strings.Contains(c.Reason, " bought nothing in round ") // on a slow machine
	if c.Mix != "0x3 hot=2" || !judged {
		t.Errorf("%+v", res.Comparisons)
	}
}
