package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/stored"
)

// A scriptedLoad measures rows in place of a server: each has the latency that latency says, and
// its load goes on as during says.
type scriptedLoad struct {
	latency func(p result.Point, trial int) float64 // p99, in ms
	during  func(o load.Options, r result.Row)      // nil: nothing happens
}

func (s scriptedLoad) measure(
	_ context.Context, p result.Point, o load.Options,
) (result.Row, error) {
	const bought = 1000
	p99 := s.latency(p, o.Trial)
	r := result.Row{
		Point:         p,
		Trial:         o.Trial,
		Status:        stored.Complete,
		Began:         time.Now().UTC().Truncate(time.Millisecond),
		Seconds:       o.Duration.Seconds(),
		Bought:        bought,
		PerBuyer:      []int64{bought},
		CourseSeconds: o.Duration.Seconds() / 2,
		Course:        []int64{bought / 2, bought / 2},
		CourseP50MS:   []float64{p99 / 2, p99 / 2},
		CourseP99MS:   []float64{p99, p99},
		WaitMS:        result.Latency{Mean: p99 / 2, P50: p99 / 2, P99: p99, Count: bought},
		Audit:         result.AuditSummary{Done: true, OK: true},
	}
	if s.during != nil {
		s.during(o, r)
	}
	return r, nil
}

// soFar is a row of which some intervals are over.
func soFar(r result.Row, intervals int) result.Row {
	r.Course, r.CourseP50MS, r.CourseP99MS =
		r.Course[:intervals], r.CourseP50MS[:intervals], r.CourseP99MS[:intervals]
	r.Seconds = float64(intervals) * r.CourseSeconds
	r.Bought = 0
	for _, n := range r.Course {
		r.Bought += n
	}
	return r
}

// playing runs a command whose rows a script measures, on the embedded server.
func playing(t *testing.T, s scriptedLoad, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := newProgram(append(args, "--backend", "embedded"), &stdout, &stderr)
	p.measureRow = s.measure
	err := p.run(t.Context(), strings.NewReader(""))
	if err != nil {
		fmt.Fprintf(&stderr, "marketsim: %v\n", err)
	}
	return outcome{stdout: stdout.String(), stderr: stderr.String(), code: exitCode(err)}
}

// TestThresholdsOfARun: a run ends with 3 where a threshold is broken, even if another is
// not decided. If only that is so it ends with 0 or, with --strict, 1. The result is stored
// all the same.
func TestThresholdsOfARun(t *testing.T) {
	t.Parallel()
	rising := scriptedLoad{latency: func(_ result.Point, trial int) float64 {
		return float64(trial) // ms
	}}
	for _, c := range []struct {
		thresholds, says string
		code             int
	}{
		{thresholds: "--threshold p99<=9ms --strict", code: exitFine},
		{
			thresholds: "--threshold p99<=0.5ms",
			says:       "violation: p99<=0.5ms is broken by lua 1x1: 5 ms",
			code:       exitViolation,
		},
		{
			thresholds: "--threshold p99<=5ms",
			says:       "warning: p99<=5ms is not decided of lua 1x1: 5 ms",
			code:       exitFine,
		},
		{
			thresholds: "--threshold p99<=5ms --strict",
			says:       "more rounds (--trials) or longer rows (--duration) decide more",
			code:       exitEnvironment,
		},
		{
			thresholds: "--threshold p99<=0.5ms --threshold p99<=5ms --strict",
			says:       "violation: p99<=0.5ms is broken by lua 1x1",
			code:       exitViolation,
		},
	} {
		t.Run(c.thresholds, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			args := strings.Fields("run lua --mix 1x1 --trials 9 --out " + dir + " " + c.thresholds)
			o := playing(t, rising, args...).exits(t, c.code).says(t, c.says, "stored in "+dir)

			run := parse(t, read(t, filepath.Join(dir, runFile)))
			if len(run.Rows) != 9 || run.Status != stored.Complete {
				t.Errorf("%d rows are stored, %s:\n%s", len(run.Rows), run.Status, o.stderr)
			}
		})
	}
}

// TestIntervalsOfARun: --format jsonl prints each interval while its row is under way, and a
// report prints what is stored of it.
func TestIntervalsOfARun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	told := scriptedLoad{
		latency: func(result.Point, int) float64 { return 2 },
		during: func(o load.Options, r result.Row) {
			for n := range 3 { // at first none is over
				o.Progress(soFar(r, n))
			}
		},
	}
	o := playing(t, told, "run", "lua,fine", "--mix", "1x1", "--duration", "1s",
		"--format", "jsonl", "--out", dir).exits(t, exitFine)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if len(lines) != 4 ||
		!strings.HasPrefix(lines[0], `{"strategy":"lua","mix":"1x1","trial":1,"interval":1,"at":"`) ||
		!strings.HasSuffix(lines[3], `,"seconds":0.5,"purchases":500,"purchases_per_second":1000,`+
			`"wait_ms_p50":1,"wait_ms_p99":2}`) {
		t.Errorf("the intervals are\n%s", o.stdout)
	}

	again := marketsim(t, "report", dir, "--format", "jsonl").exits(t, exitFine)
	if again.stdout != o.stdout {
		t.Errorf("report prints\n%s\nand run printed\n%s", again.stdout, o.stdout)
	}
	file := filepath.Join(t.TempDir(), "intervals.jsonl")
	marketsim(t, "report", dir, dir, "-o", file).exits(t, exitFine)
	if text := read(t, file); strings.Count(text, `{"run":"`+dir) != 8 {
		t.Errorf("of two runs it prints\n%s", text)
	}

	// A sweep prints its intervals, and stores none.
	swept := filepath.Join(t.TempDir(), "swept")
	o = playing(t, told, "sweep", "lua", "--axis", "hot=1,2", "--trials", "6", "--duration", "1s",
		"--format", "jsonl", "--out", swept).exits(t, exitFine)
	if n := strings.Count(o.stdout, `"strategy":"lua","mix":"0x5","hot":`); n != 24 {
		t.Errorf("a sweep of 12 rows prints %d intervals:\n%s", n, o.stdout)
	}
	refused := marketsim(t, "report", dir, swept, "--format", "jsonl").exits(t, exitUsage).
		says(t, "holds no intervals", "sweep --format jsonl")
	if refused.stdout != "" {
		t.Errorf("it has printed some before it refused the rest:\n%s", refused.stdout)
	}
}

// TestNobodyReadsIntervals: a reader that is gone ends the run, and not only its output.
func TestNobodyReadsIntervals(t *testing.T) {
	t.Parallel()
	told := scriptedLoad{
		latency: func(result.Point, int) float64 { return 2 },
		during:  func(o load.Options, r result.Row) { o.Progress(r) },
	}
	args := strings.Fields("run lua fine --mix 1x1 --format jsonl --backend embedded")
	p := newProgram(args, goneReader{}, new(bytes.Buffer))
	p.measureRow = told.measure
	if err := p.run(t.Context(), strings.NewReader("")); !errors.Is(err, errGone) ||
		exitCode(err) != exitEnvironment ||
		!strings.Contains(err.Error(), "0 of 2 rows complete") {
		t.Errorf("it ends with %v", err)
	}
}

var errGone = errors.New("nobody reads it")

type goneReader struct{}

func (goneReader) Write([]byte) (int, error) { return 0, errGone }

// TestLiveLine: the line says what the row does, and what it has measured so far, in as many
// columns as there are.
func TestLiveLine(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

	// A row begins with its measured time: one that began in the future is in its warm-up.
	began := func(ago time.Duration) result.Row { return result.Row{Began: now.Add(-ago)} }
	measured := began(18 * time.Second)
	measured.Seconds, measured.Bought, measured.Course = 18, 18*12_345, []int64{1}
	measured.WaitMS = result.Latency{P99: 1.25, Count: 1}

	ended := measured
	ended.Began = now.Add(-time.Minute)

	const name = "fine:set-px 5x5"
	for _, c := range []struct {
		name    string
		rest    time.Duration
		soFar   result.Row
		columns int
		want    string
	}{
		{name: name, columns: 79, want: "3/54 fine:set-px 5x5: its market is prepared"},
		{
			name: name, soFar: began(-2 * time.Second), columns: 79,
			want: "3/54 fine:set-px 5x5: warm-up, 1m2s left",
		},
		{name: name, soFar: began(time.Second), columns: 79, want: "3/54 fine:set-px 5x5: 59s left"},
		{
			name: name, soFar: measured, columns: 79, rest: 510 * time.Second,
			want: "3/54 fine:set-px 5x5: 42s left (all: 9m12s), 12,345 purchases/s, p99 1.25 ms",
		},
		{
			name: name, soFar: measured, columns: 60, rest: 510 * time.Second,
			want: "3/54 fine:set-px…: 42s left, 12,345 purchases/s, p99 1.25 ms",
		},
		{
			name: name, soFar: ended, columns: 79, rest: 510 * time.Second,
			want: "3/54 fine:set-px 5x5: its end and its audit, 12,345 purchases/s, p99 1.25 ms",
		},
	} {
		l := &liveRow{number: 3, all: 54, name: c.name, duration: time.Minute, rest: c.rest}
		l.update(c.soFar)
		if got := l.line(now, c.columns); got != c.want || runewidth.StringWidth(got) > c.columns {
			t.Errorf("of %d columns:\n%s, want\n%s", c.columns, got, c.want)
		}
	}
}
