package join

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

// A Cause is why a run ends before its time.
type Cause string

// The causes.
const (
	Interrupted Cause = "interrupted" // by the user of a member
	Failed      Cause = "failed"      // the environment of a member did
	Lost        Cause = "lost"        // a member is silent
	Cut         Cause = "cut"         // this member is the one
)

// Over is the error that ends a run for its members before its time.
type Over struct {
	Cause  Cause
	Member int    // whom it happened to, from 0
	What   string // that, in words; empty: the cause says all
}

func (o *Over) Error() string {
	who := fmt.Sprintf("load machine %d", o.Member+1)
	switch o.Cause {
	case Interrupted:
		return who + " was interrupted by its user"
	case Lost:
		return who + " was lost: " + o.What
	case Cut:
		return fmt.Sprintf("this process, load machine %d, lost the others: %s", o.Member+1, o.What)
	}
	return who + " failed: " + o.What
}

// Over is closed when the run is to end before its time.
func (m *Member) Over() <-chan struct{} { return m.isOver }

// Why is why the run is to end before its time; nil: it goes on.
func (m *Member) Why() *Over {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over
}

// learn notes whether the run is to end.
func (m *Member) learn(v view) {
	if v.stop != nil {
		m.end(v.stop)
		return
	}
	for i, other := range v.members {
		switch {
		case i == m.index:
		case other.gone == "left":
			m.end(&Over{Cause: Failed, Member: i, What: "it left before the end"})
		case other.gone == "lost":
			m.end(&Over{Cause: Lost, Member: i, What: fmt.Sprintf("it was silent for %s", m.config.Silence)})
		}
	}
}

// cut ends the run for this member.
func (m *Member) cut(what string) *Over {
	o := &Over{Cause: Cut, Member: m.index, What: what}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over == nil {
		close(m.isOver)
	}
	m.over = o // whatever else is known: nobody waits for this member
	m.trusted.Store(math.MinInt64)
	return o
}

func (m *Member) end(o *Over) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over == nil {
		m.over = o
		close(m.isOver)
	}
}

// confirm notes that a sign of life that was sent then was answered.
func (m *Member) confirm(sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sent.After(m.confirmed) && (m.over == nil || m.over.Cause != Cut) {
		m.confirmed = sent
		m.trusted.Store(int64(sent.Add(m.config.Silence * (signs - 1) / signs).Sub(m.made)))
		close(m.answered)
		m.answered = make(chan struct{})
	}
}

// stale reports whether the last sign of life that was answered is older.
func (m *Member) stale(than time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config.Now().Sub(m.confirmed) > than
}

// Guard returns a dial whose connections send nothing while the others may think that this member is lost: a command waits
// for the answer to a sign of life then, or fails. So a process that was stopped, and goes on after the others have settled
// what it had under way, does not trade any more. A connection that workers share is not guarded.
func (m *Member) Guard(dial func(context.Context) (*backend.Conn, error)) func(context.Context) (*backend.Conn, error) {
	return func(ctx context.Context) (*backend.Conn, error) {
		conn, err := dial(ctx)
		if err == nil && !conn.Shared() {
			conn.AddHook(guard{m})
		}
		return conn, err
	}
}

// guard is the redis.Hook of Guard.
type guard struct{ *Member }

func (g guard) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := g.await(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (g guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := g.await(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// await returns when a sign of life was answered not long ago. Where that is so, as a rule, it takes no lock.
func (g guard) await(ctx context.Context) error {
	for {
		if int64(g.config.Now().Sub(g.made)) < g.trusted.Load() {
			return nil
		}
		if over := g.Why(); over != nil && over.Cause == Cut {
			return over
		}
		g.mu.Lock()
		answered := g.answered
		g.mu.Unlock()
		select {
		case <-answered:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll): // cut off, perhaps
		}
	}
}
