// Package locking is what the locks of several packages have in common, and what a
// strategy needs that sets and releases a lock by its own commands (write=fused): when an
// attempt is repeated, how one that failed is undone, and scripts.
package locking

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// Errors of package lock, which documents them.
var (
	ErrTimeout = errors.New("lock was not acquired in time")
	ErrLost    = errors.New("lock is no longer held")
)

// The values of lost-reply.
const (
	LostReplyKept     = "kept"
	LostReplyReleased = "released"
)

const lostReplySummary = "a lock that may be held although its reply was lost is kept or released"

// LostReplyParam has what was published as its default, and LostReplyReleasedParam what
// mends it.
var (
	LostReplyParam         = param.OneOf("lost-reply", lostReplySummary, LostReplyKept, LostReplyReleased)
	LostReplyReleasedParam = param.OneOf("lost-reply", lostReplySummary, LostReplyReleased, LostReplyKept)
)

//go:embed *.lua
var scripts embed.FS

// CompareDelete deletes its key if that holds its argument, a token, and answers how many
// keys it deleted.
var CompareDelete = redis.NewScript(ScriptText(scripts, "compare_delete"))

// ScriptText is the text of embedded files, one after the other, given their names
// without .lua.
func ScriptText(files embed.FS, names ...string) (text string) {
	for _, name := range names {
		part, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // a mistake in the package: every test finds it
		}
		text += string(part)
	}
	return text
}

// undoTimeout bounds the attempt to give back a lock that may have been taken.
const undoTimeout = 2 * time.Second

// Undo gives back the lock after an acquisition, or a release, that failed with cause, and
// returns the cause. If it is not known that the lock is held, it may be, because only the reply was
// lost: unless the cause is the server's answer.
func Undo(ctx context.Context, cause error, held bool, release func(context.Context) error) error {
	if _, answered := errors.AsType[redis.Error](cause); answered && !held {
		return cause
	}
	cause = redisconn.OfContext(ctx, cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := release(ctx); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w (and the lock may still be held: %w)", cause, err)
	}
	return cause
}

// Retries says when the acquisitions of one Locker try again, and when they give up. It
// is not safe for concurrent use.
type Retries struct {
	Backoff       *Backoff
	steps         step.Observer
	poll, timeout time.Duration
	deadline      time.Time
	polls         int64
}

// NewRetries returns those that the parameters of a back-off ask for, with the lock's
// own for the wait between two attempts and for the time-out.
func NewRetries(v param.Values, poll, timeout param.Param, steps step.Observer) *Retries {
	return &Retries{
		Backoff: NewBackoff(v, v.Duration(poll)),
		steps:   steps,
		poll:    v.Duration(poll),
		timeout: v.Duration(timeout),
	}
}

// Begin begins an acquisition, before its first attempt.
func (r *Retries) Begin() {
	r.deadline = time.Now().Add(r.timeout)
	r.Backoff.Reset()
}

// Next reports step.Waiting after an attempt that found the lock held, and returns how
// long to wait, or ErrTimeout.
func (r *Retries) Next(ctx context.Context) (time.Duration, error) {
	r.polls++
	r.steps.At(ctx, step.Waiting)
	left := r.Left()
	if left <= 0 {
		return 0, ErrTimeout
	}
	wait, more := r.Backoff.Next()
	if !more {
		return 0, triesError(r.Backoff.Tries())
	}
	// A wait that has grown does not outlast the time-out. One as long as the poll may.
	return max(1, min(wait, max(left, r.poll))), nil
}

// Left is how long the acquisition may still take.
func (r *Retries) Left() time.Duration { return time.Until(r.deadline) }

// Polls is how many attempts have found a lock held.
func (r *Retries) Polls() int64 { return r.polls }

// triesError is ErrTimeout where a number of tries ended the acquisition, and
// not the time-out.
type triesError int

func (n triesError) Error() string {
	return fmt.Sprintf("lock was held at each of as many tries as there may be, %d", int(n))
}

// Is makes errors.Is find ErrTimeout.
func (triesError) Is(target error) bool { return target == ErrTimeout }
