package judge_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/verify/explore"
)

// A countdown calls a function when it has been written to as often as is left.
type countdown struct {
	left atomic.Int64
	over func()
}

func (c *countdown) Write(b []byte) (int, error) {
	if c.left.Add(-1) == 0 {
		c.over()
	}
	return len(b), nil
}

// What was searched before an interruption counts.
func TestJudgeIsInterrupted(t *testing.T) {
	t.Parallel()
	tells := options(t, "tells", explore.Bounds{Preemptions: 3, Kinds: []explore.Fault{}})
	tells.Pairs = 2

	retried(t, tells, func(o judge.Options) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		asked := &countdown{over: cancel}
		asked.left.Store(30) // rehearsals take about 12, and all schedules 180
		o.Stderr = asked

		r, err := judge.Judge(ctx, o)
		if r == nil {
			return err
		}

		first := r.Searches[0]
		if first.Harm != "" {
			return fmt.Errorf("the machine was late: %s", first.Found())
		}
		then := r.Searches[1]
		if first.Stopped != "an interruption" || first.Schedules == 0 ||
			then.Why != "an interruption came first" {

			t.Errorf("%+v, and then %+v", first, then)
		}
		return nil
	})
}
