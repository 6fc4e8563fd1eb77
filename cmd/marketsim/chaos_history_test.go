package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market"
)

// TestJudge: a history that was not judged, or not wholly, is kept and is an error; one that is in order is removed.
func TestJudge(t *testing.T) {
	fine := func(t *testing.T, dir string) { recorded(t, dir, 2) }
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		row   bench.Row
		make  func(t *testing.T, dir string)
		exits int
		kept  bool
		says  string // the error
	}{
		{name: "in order", make: fine},
		{name: "in order, of a row that was interrupted", ctx: interrupted, make: fine},
		{name: "violated", make: func(t *testing.T, dir string) { recorded(t, dir, 2, 3) }, exits: exitViolation, kept: true, says: "items"},
		{name: "undecided", make: undecidable, exits: exitEnvironment, kept: true, says: "not decided in time: accounts"},
		{name: "undecided, and interrupted", ctx: interrupted, make: undecidable, exits: exitInterrupted, kept: true, says: "not decided in time"},
		{name: "damaged", make: func(t *testing.T, dir string) {
			fine(t, dir)
			if err := os.Truncate(filepath.Join(dir, "history.jsonl"), 100); err != nil {
				t.Fatal(err)
			}
		}, exits: exitEnvironment, kept: true, says: "history is damaged"},
		{name: "interrupted before anything was recorded", ctx: interrupted, row: bench.Row{Status: bench.Interrupted},
			make: func(*testing.T, string) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			config, f := bench.Config{}, chaosFlags{}
			if err := f.record(&config); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(filepath.Dir(config.History))
			c.make(t, config.History)
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			var told strings.Builder
			err := f.judge(c.ctx, &told, config, c.row, nil)
			if code := exitCode(err); code != c.exits || c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Errorf("exits %d, want %d with %q: %v", code, c.exits, c.says, err)
			}
			_, statErr := os.Stat(filepath.Dir(config.History))
			if kept := statErr == nil; kept != c.kept || kept != strings.Contains(told.String(), "the history is kept in "+config.History) {
				t.Errorf("kept %t, want %t, and told:\n%s", kept, c.kept, &told)
			}
		})
	}
}

// undecidable makes a history with more lost replies on one item than are tried.
func undecidable(t *testing.T, dir string) {
	recordedWith(t, dir, errors.New("EOF"), slices.Repeat([]market.UserID{2}, 12)...)
}

// TestLimit: Ctrl-C ends a check under way, and leaves some seconds to one of a row that it ended.
func TestLimit(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	under, cancel := limit(ctx)
	defer cancel()
	if under.Err() != nil {
		t.Error("the check ends before it begins")
	}
	interrupt()
	if under.Err() == nil {
		t.Error("an interrupted check goes on")
	}
	after, cancel := limit(ctx)
	defer cancel()
	if end, ok := after.Deadline(); after.Err() != nil || !ok || time.Until(end) > interruptedCheckTimeout {
		t.Errorf("after the interruption: %v, until %v", after.Err(), end)
	}
}
