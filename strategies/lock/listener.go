package lock

import (
	"context"
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

// listener repeats an attempt to take a lock whenever there is reason to: how locks wait that are told when to try.
type listener struct {
	hub     *hub
	timeout time.Duration
	steps   step.Observer
	polls   int64
	asked   time.Time
	timer   *time.Timer
}

// Polls implements Poller.
func (l *listener) Polls() int64 { return l.polls }

// Asked implements Asker.
func (l *listener) Asked() time.Time { return l.asked }

// until calls attempt until it answers 0, which means that the lock is taken, or an error. Any other answer is the time
// after which to look again although no message came. It returns ErrTimeout when the time-out has passed, and ctx's
// error when ctx ended first.
func (l *listener) until(ctx context.Context, channel, token string,
	attempt func(context.Context) (time.Duration, error),
) (err error) {
	s := l.hub.sit(channel, token)
	defer func() { s.leave(err == nil) }()
	for deadline := time.Now().Add(l.timeout); ; {
		l.asked = time.Now()
		again, err := attempt(ctx)
		if err != nil || again == 0 {
			return err
		}
		l.polls++
		l.steps.At(ctx, step.Waiting)
		left := time.Until(deadline)
		if left <= 0 {
			return ErrTimeout
		}
		s.listen()
		if err := l.wait(ctx, s, min(again, left)); err != nil {
			return err
		}
	}
}

func (l *listener) wait(ctx context.Context, s *seat, most time.Duration) error {
	if l.timer == nil {
		l.timer = time.NewTimer(most)
	} else {
		l.timer.Reset(most)
	}
	defer l.timer.Stop()
	select {
	case <-s.woken:
		return nil
	case <-l.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
