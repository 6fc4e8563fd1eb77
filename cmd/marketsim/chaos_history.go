package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/history"
)

// checkTimeout bounds how long the history of a rough row is judged. What is not decided by then is unknown.
const checkTimeout = 10 * time.Minute

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

// judge checks the history of a rough row, unless the row failed, and removes it unless something is wrong or the user
// wants it. That a lock which expires is held by two after a pause is told, and is no violation by itself: what counts is
// what becomes of items and coins.
func (f *chaosFlags) judge(ctx context.Context, w io.Writer, c bench.Config, row bench.Row, failure error) error {
	remove := func() error {
		if f.named {
			return nil
		}
		return os.RemoveAll(filepath.Dir(c.History))
	}
	if failure != nil {
		return remove() // it has no end
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	overlaps := 0
	violated := row.Audit.Done && !row.Audit.OK
	h, err := history.Read(c.History)
	if err == nil {
		v := history.Check(ctx, h)
		for _, p := range v.Parts {
			switch {
			case p.Result != history.Violated:
			case p.Name == lockPart:
				overlaps = p.Wrong
			default:
				violated = true
				err = errors.Join(err, fmt.Errorf("%w: the history of %s %s: %s: %d wrong", errViolation, row.Strategy, c.Mix, p.Name, p.Wrong))
			}
		}
		err = errors.Join(err, v.Write(w))
	}
	if overlaps > 0 && !violated {
		fmt.Fprintf(w, "the lock was held by two, %s, and yet all items and coins are where they should be\n", count(int64(overlaps), "time"))
	}
	if violated {
		fmt.Fprintf(w, "the history is kept in %s\n", c.History)
		return err
	}
	return errors.Join(err, remove())
}
