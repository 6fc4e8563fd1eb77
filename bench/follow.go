package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// On Redis Cluster another master may take the place of a market's. Connections follow it; what they
// cannot send again by themselves, because it has to begin anew or because the connection broke, the driver tries again:
// operations one by one, and the opening, the audit and the removal of a market from their beginning.

const (
	// masterPatience is how long a worker goes on without a master that serves its market.
	masterPatience = 30 * time.Second
	// masterPause is how long it waits before it tries again.
	masterPause = 10 * time.Millisecond
	// mostOpenings is how often the markets of a row are opened at most.
	mostOpenings = 3
)

var (
	// errNoService is returned, wrapped, when masterPatience is at an end.
	errNoService = fmt.Errorf("no master has served the market for %s", masterPatience)
	// errReplaced is returned, wrapped, for what one master had to do from its beginning to its end.
	errReplaced = errors.New("another master took the place of the market's meanwhile")
)

// unserved reports whether err shows that the market's master is not there, or no longer the same.
func unserved(err error) bool {
	return backend.Redirected(err) || backend.Broken(err) || errors.Is(err, errReplaced)
}

// follows reports whether another master may take the place of the market's.
func (m *rowMarket) follows() bool { return m.route != nil && m.route.Follows() }

// changes are the masters that took another's place in the row.
func (m *rowMarket) changes() []backend.Change {
	if m.route == nil {
		return nil
	}
	return m.route.Changes()[m.changed:]
}

// moves is how often the market has got another master, as its cluster says now. Where nobody answers, that has
// not changed.
func (m *rowMarket) moves(ctx context.Context) int {
	if !m.follows() {
		return 0
	}
	_, _ = m.route.Ask(ctx)
	return len(m.route.Changes())
}

// moved returns errReplaced if the market has got another master since it had had so many.
func (m *rowMarket) moved(ctx context.Context, before int) error {
	if m.moves(ctx) != before {
		return errReplaced
	}
	return nil
}

// whole lets do work on the market over a connection of its own, and again from the beginning where the master was not there
// or another one took its place meanwhile: what do reads is of one master, and what it writes, another one need not have.
func (m *rowMarket) whole(ctx context.Context, do func(*backend.Conn) error) error {
	for failing := (time.Time{}); ; time.Sleep(masterPause) {
		before, began := m.moves(ctx), time.Now()
		conn, err := m.Dial(ctx)
		if err == nil {
			err = do(conn)
			_ = conn.Close()              // it may be broken
			if !backend.Redirected(err) { // or the connection has waited for a master as long
				began = time.Now()
			}
		}
		if replaced := m.moved(ctx, before); replaced != nil {
			err = replaced
		}
		if !m.follows() || ctx.Err() != nil || !unserved(err) {
			return err
		}
		if failing.IsZero() {
			failing = began
		}
		if time.Since(failing) > masterPatience {
			return m.unservedBy(fmt.Errorf("%w: %w", errNoService, err))
		}
	}
}

// unservedBy adds to an error which master is not there, and what to do about it.
func (m *rowMarket) unservedBy(err error) error {
	if !m.follows() || !unserved(err) {
		return err
	}
	master := "the master"
	if last, err := m.route.Target(context.Background()); err == nil {
		master += " " + last.Addr
	}
	return fmt.Errorf("%w; see that %s of %s serves, or a replica in its place, and run it again", err, master, m.Keys.Prefix())
}

// replaced reports whether a server that held the market is no master any more, so that what it had acknowledged and not
// passed on is gone. One whose slot was moved is.
func (m *rowMarket) replaced(ctx context.Context) bool {
	var before []backend.Target
	for _, change := range m.changes() {
		target, err := m.route.Target(ctx)
		if err != nil {
			return true
		}
		target.Addr = change.From
		before = append(before, target)
	}
	for _, target := range before {
		conn, err := backend.Dial(ctx, target)
		if err != nil {
			return true
		}
		fields, err := conn.InfoFields(ctx, "replication")
		if conn.Close(); err != nil || fields["role"] != "master" {
			return true
		}
	}
	return false
}

// again reports whether an operation that ended with err was certainly not made, because its master was not there, and is
// to be tried again now.
func (w *Worker) again(ctx context.Context, err error) bool {
	return (errors.Is(err, market.ErrRejected) || errors.Is(err, market.ErrNotSent)) && w.recover(ctx, err) == nil
}

// recover lets the worker go on after a failure that shows that its master is not there: it waits a little, and connects
// anew where the connection is broken. It returns err, or why the worker cannot go on, after other failures, where no
// master can take another's place, and where none has for too long.
func (w *Worker) recover(ctx context.Context, err error) error {
	if err == nil || !w.market.follows() {
		return err
	}
	if w.failing.IsZero() {
		w.failing = time.Now()
	}
	for {
		switch {
		case ctx.Err() != nil || !unserved(err):
			return err
		case time.Since(w.failing) > masterPatience:
			return fmt.Errorf("%w: %w", errNoService, err)
		}
		time.Sleep(masterPause)
		if w.purchaser != nil && !backend.Broken(err) {
			return nil
		}
		if err = w.Connect(ctx); err == nil {
			return nil
		}
	}
}

// fatal returns why an operation that ended with err ends the row; nil: it does not.
func (w *Worker) fatal(ctx context.Context, err error) error {
	if !Fatal(err) {
		return nil
	}
	return w.recover(ctx, err)
}

// service is when something was bought in a market, after the warm-up, in ns of the collector. All workers of the market
// use it, where its master may be replaced. It allocates nothing.
type service struct{ last, longest atomic.Int64 } // when that was last, and the longest time without

func (s *service) begin(at int64) { s.last.Store(at) }

func (s *service) bought(at int64) {
	for gap := at - s.last.Swap(at); ; {
		longest := s.longest.Load()
		if gap <= longest || s.longest.CompareAndSwap(longest, gap) {
			return
		}
	}
}

// addService says how well the servers of a row served it that may be replaced.
func (m *measurement) addService(r *result.Row) {
	if r.Seconds <= 0 || !slices.ContainsFunc(m.markets, (*rowMarket).follows) {
		return
	}
	redirects := m.stopped.market.Sub(m.warmed.market).Redirects
	r.Redirects, r.WithoutServiceSeconds = &redirects, new(float64)
	if redirects > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s sent again, because another master was responsible, or none",
			english.Plural(int(redirects), "command was", "commands were")))
	}
	for _, in := range m.markets {
		in.service.bought(m.collector.since(m.stop.at)) // nothing was, but the row has ended
		without := time.Duration(in.service.longest.Load()).Seconds()
		*r.WithoutServiceSeconds = max(*r.WithoutServiceSeconds, without)
		for _, change := range in.changes() {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s took the place of %s as master of %s %.1f s after the row began; the "+
				"longest time without a purchase there was %.1f s", change.To, change.From, in.Keys.Prefix(),
				change.At.Sub(m.started).Seconds(), without))
		}
	}
}

// answered notes that a master serves the market, if the outcome of an operation shows it.
func (w *Worker) answered(err error) {
	if !Fatal(err) {
		w.failing = time.Time{}
	}
}
