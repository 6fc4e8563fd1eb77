package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/history"
)

// checkTimeout bounds how long the history of a rough row is judged, and interruptedCheckTimeout how long that of a row
// which the user stopped.
const (
	checkTimeout            = 10 * time.Minute
	interruptedCheckTimeout = 3 * time.Second
)

// lockPart is the part of a verdict that judges the lock and not the market.
const lockPart = "locks"

// record has the row's history recorded: in a temporary folder, unless the user named one.
func (f *chaosFlags) record(c *bench.Config) error {
	if c.History != "" {
		f.named = true
		return nil
	}
	folder, err := os.MkdirTemp("", "marketsim-history-")
	if err != nil {
		return fmt.Errorf("making the folder of a history: %w", err)
	}
	c.History = filepath.Join(folder, "row")
	return nil
}

// judge checks the history of a rough row, unless the row failed or was stopped before anything was recorded. It removes
// the history if it was wholly judged and nothing is wrong, unless the user wants it; else it tells where it is kept.
func (f *chaosFlags) judge(ctx context.Context, w io.Writer, c bench.Config, row bench.Row, failure error) error {
	if failure != nil {
		return f.remove(c) // it has no end
	}
	h, err := history.Read(c.History)
	switch {
	case errors.Is(err, history.ErrNone) && row.Status == bench.Interrupted:
		return f.remove(c)
	case err != nil: // no mistake of the user's
		err = fmt.Errorf("judging the history of %s %s: %v", row.Strategy, c.Mix, err)
	default:
		limited, cancel := limit(ctx)
		defer cancel()
		v := history.Check(limited, h)
		written := v.Write(w)
		err = errors.Join(ruleRough(ctx, w, c, row, v), written)
	}
	if err == nil && !(row.Audit.Done && !row.Audit.OK) {
		return f.remove(c)
	}
	fmt.Fprintf(w, "the history is kept in %s\n", c.History)
	return err
}

// remove removes a history that the user did not name.
func (f *chaosFlags) remove(c bench.Config) error {
	if f.named {
		return nil
	}
	return os.RemoveAll(filepath.Dir(c.History))
}

// limit bounds a check: by its time, and by the user's Ctrl-C. After a Ctrl-C that ended the row, what is decided in some
// seconds is still wanted.
func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), interruptedCheckTimeout)
	}
	return context.WithTimeout(ctx, checkTimeout)
}

// ruleRough is what a verdict on a rough row means for the exit code. That a lock which expires is held by two after a
// pause is told, and is no violation by itself: what counts is what becomes of items and coins.
func ruleRough(ctx context.Context, w io.Writer, c bench.Config, row bench.Row, v history.Verdict) error {
	overlaps, open := 0, []string{}
	var errs []error
	for _, p := range v.Parts {
		switch {
		case p.Result == history.Undecided:
			open = append(open, p.Name)
		case p.Result != history.Violated:
		case p.Name == lockPart:
			overlaps = p.Wrong
		default:
			errs = append(errs, fmt.Errorf("%w: the history of %s %s: %s: %d wrong", errViolation, row.Strategy, c.Mix, p.Name, p.Wrong))
		}
	}
	if len(open) > 0 {
		errs = append(errs, undecided(ctx, c, row, open))
	}
	if overlaps > 0 && len(errs) == 0 && !(row.Audit.Done && !row.Audit.OK) {
		fmt.Fprintf(w, "the lock was held by two, %s, and yet all items and coins are where they should be\n", count(int64(overlaps), "time"))
	}
	return errors.Join(errs...)
}

// undecided tells which parts of a verdict are open. After a Ctrl-C that is the user's wish.
func undecided(ctx context.Context, c bench.Config, row bench.Row, parts []string) error {
	err := fmt.Errorf("the history of %s %s is not decided in time: %s; 'marketsim check --timeout 1h %s' takes longer", row.Strategy, c.Mix,
		strings.Join(parts, ", "), c.History)
	return interruptedOr(ctx, err)
}
