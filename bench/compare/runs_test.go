package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// stored is a run of fine with one trial for each of the purchases/s.
func stored(rates ...float64) *result.Run {
	run := &result.Run{Schema: result.Schema, Status: result.Complete}
	run.Manifest = result.Manifest{
		Version: "v1", Go: "go1.26", OS: "linux/amd64", CPU: "a CPU", CPUs: 2, Kernel: "6.1", Backend: "local",
		Server: "redis", ServerVersion: "7.0", ServerConfig: map[string]string{"save": ""},
		Config: result.Config{DurationSeconds: 5, WarmupSeconds: 1, Mixes: []string{"5x5"}, Trials: len(rates), Target: "a"},
	}
	for i, rate := range rates {
		run.Rows = append(run.Rows, measured("fine", i+1, rate))
	}
	return run
}

// TestStored: a row differs where the intervals of its medians are disjoint. Of 6 trials they end at the lowest and the
// highest.
func TestStored(t *testing.T) {
	for _, c := range []struct {
		old, new  *result.Run
		want      result.Compared
		low, high float64
	}{
		{stored(100, 101, 102, 103, 104, 105), stored(110, 120, 120, 120, 120, 130), result.Faster, 110. / 105, 1.3},
		{stored(110, 120, 120, 120, 120, 130), stored(100, 101, 102, 103, 104, 105), result.Slower, 100. / 130, 105. / 110},
		{stored(100, 101, 102, 103, 104, 105), stored(104, 120, 120, 120, 120, 130), result.Undecided, 104. / 105, 1.3},
		{stored(100, 101, 101, 101, 101, 102), stored(100, 101, 101, 101, 101, 102), result.NoDifference, 100. / 102, 1.02},
	} {
		runs, err := Stored(c.old, c.new, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		got := runs.Rows[0]
		if got.Verdict != c.want || *got.Low != c.low || *got.High != c.high || len(runs.Differ) != 0 {
			t.Errorf("%+v, %v to %v; want %q, %v to %v", got, *got.Low, *got.High, c.want, c.low, c.high)
		}
	}
}

// TestWorkloadsApart: rows under another workload are no rows of a pair, of one run or of two.
func TestWorkloadsApart(t *testing.T) {
	run := comparison(0.05, times(1.2, 1.2, 1.2, 1.2, 1.2, 1.2)...)
	other := comparison(0.05, times(1.2, 1.2, 1.2, 1.2, 1.2, 1.2)...)
	for i := range other.Rows {
		other.Rows[i].HoldMS = 1
	}
	if _, err := Stored(run, other, 0.05); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "a 5x5 hold=1ms") {
		t.Errorf("two runs: %v, want %v", err, ErrNothing)
	}
	if found, err := Stored(other, other, 0.05); err != nil || found.Rows[0].Mix != "5x5 hold=1ms" {
		t.Errorf("the same run twice: %+v, %v", found.Rows, err)
	}
	if got := only(t, other); got.Rounds != 0 || got.Verdict != result.Undecided {
		t.Errorf("a run of the book's workload with rows of another: %+v", got)
	}
	other.Manifest.Config.HoldMS = 1
	if got := only(t, other); got.Rounds != 6 || got.Verdict != result.Faster || got.Mix != "5x5 hold=1ms" {
		t.Errorf("a run of another workload: %+v", got)
	}
	if differ := Differences(run.Manifest, other.Manifest); len(differ) != 1 || differ[0] != (Difference{"workload", "", "hold=1ms"}) {
		t.Errorf("the runs differ in %+v", differ)
	}
}

// TestStoredUnknown: without two intervals nothing is decided, and the reason says why.
func TestStoredUnknown(t *testing.T) {
	good := func() *result.Run { return stored(100, 101, 102, 103, 104, 105) }
	cut, wrong := good(), good()
	cut.Status = result.Interrupted
	wrong.Rows[2].Audit.OK = false
	for want, c := range map[string][2]*result.Run{
		"trials in the old run: 1, where an interval takes 6": {stored(50), good()},
		"trials in the new run: 5, where an interval takes 6": {good(), stored(50, 50, 50, 50, 50)},
		"the new run is interrupted":                          {good(), cut},
		"in trial 3 of the old run it failed its audit":       {wrong, good()},
	} {
		runs, err := Stored(c[0], c[1], 0.05)
		if err != nil {
			t.Fatal(err)
		}
		if got := runs.Rows[0]; got.Reason != want || got.Verdict != result.Undecided || got.Low != nil || got.Ratio == nil {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

// TestDifferences: every circumstance that could be the cause is named, and nothing else.
func TestDifferences(t *testing.T) {
	for want, change := range map[string]func(*result.Manifest){
		"CPU: a CPU, b":                 func(m *result.Manifest) { m.CPU = "b" },
		"CPUs: 2, 8":                    func(m *result.Manifest) { m.CPUs = 8 },
		"system: linux/amd64, darwin":   func(m *result.Manifest) { m.OS = "darwin" },
		"kernel: 6.1, 6.2":              func(m *result.Manifest) { m.Kernel = "6.2" },
		"Go: go1.26, go1.27":            func(m *result.Manifest) { m.Go = "go1.27" },
		"marketsim: v1, v2":             func(m *result.Manifest) { m.Version = "v2" },
		"server: redis 7.0, valkey 7.0": func(m *result.Manifest) { m.Server = "valkey" },
		"server: redis 7.0, redis 8.0":  func(m *result.Manifest) { m.ServerVersion = "8.0" },
		"backend: local, url":           func(m *result.Manifest) { m.Backend = "url" },
		"server's save: , 60 1":         func(m *result.Manifest) { m.ServerConfig["save"] = "60 1" },
		"server's io-threads: , 4":      func(m *result.Manifest) { m.ServerConfig["io-threads"] = "4" },
		"duration: 5 s, 0.5 s":          func(m *result.Manifest) { m.Config.DurationSeconds = 0.5 },
		"warm-up: 1 s, 2 s":             func(m *result.Manifest) { m.Config.WarmupSeconds = 2 },
		"mixes: 5x5, 1x1, 5x5":          func(m *result.Manifest) { m.Config.Mixes = []string{"1x1", "5x5"} },
		"trials: 6, 9":                  func(m *result.Manifest) { m.Config.Trials = 9 },
		"browsers: 0, 2":                func(m *result.Manifest) { m.Config.Browsers = 2 },
		"wallets: 0, 3":                 func(m *result.Manifest) { m.Config.Wallets = 3 },
		"funds: 0, 7":                   func(m *result.Manifest) { m.Config.Funds = 7 },
		"":                              func(m *result.Manifest) { m.Seed, m.Config.Target, m.Command = 9, "b", "x" },
	} {
		changed := stored(1, 2, 3, 4, 5, 6)
		change(&changed.Manifest)
		runs, err := Stored(stored(1, 2, 3, 4, 5, 6), changed, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range runs.Differ {
			got = append(got, fmt.Sprintf("%s: %s, %s", d.What, d.Old, d.New))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("they differ in %q, want %q", got, want)
		}
	}
	a, b := stored(1), stored(1)
	a.Manifest.Backend, b.Manifest.Backend, a.Manifest.ServerConfig = "url", "url", nil
	b.Manifest.Config.Target = "b"
	if runs, err := Stored(a, b, 0); err != nil || len(runs.Differ) != 1 || runs.Differ[0] != (Difference{"address", "a", "b"}) {
		t.Errorf("%+v, %v", runs.Differ, err)
	}
}

// TestRowsInOneRun are named, and rows that have no purchases/s of their own are left out.
func TestRowsInOneRun(t *testing.T) {
	old, new := stored(1), stored(2)
	old.Rows = append(old.Rows, measured("watch", 1, 3))
	open := measured("fine", 1, 4)
	open.Open = &result.Open{Asked: 50}
	new.Rows = append(new.Rows, measured("coarse", 1, 3), open)
	runs, err := Stored(old, new, 0.05)
	if err != nil || len(runs.Rows) != 1 || !slices.Equal(runs.OldOnly, []string{"watch 5x5"}) ||
		!slices.Equal(runs.NewOnly, []string{"coarse 5x5"}) || !slices.Equal(runs.LeftOut, []string{"fine 5x5 at 50/s"}) {
		t.Errorf("%+v, %v", runs, err)
	}
	new.Rows = new.Rows[2:]
	_, err = Stored(old, new, 0.05)
	if want := "the runs have no row in common: the old one has fine 5x5, watch 5x5, and the new one none that can be compared"; !errors.Is(err, ErrNothing) || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
