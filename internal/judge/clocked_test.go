package judge_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// takesByClock takes a lock that ends at a time by some clock, as testdata/clock.py does: by
// the client's for getset, and by the server's for time. With token it takes one by SET NX PX
// whose token has the client's time inside.
func takesByClock(
	ctx context.Context, rdb *redis.Client, kind, name string, lease time.Duration) (token string) {

	now := func() int64 { return time.Now().UnixMilli() }
	switch kind {
	case "clock time":
		now = func() int64 { return rdb.Time(ctx).Val().UnixMilli() }
	case "clock token":
		token = fmt.Sprint("token:", now())
		if rdb.SetNX(ctx, name, token, lease).Val() {
			return token
		}
		return ""
	}

	ends := strconv.FormatInt(now()+lease.Milliseconds(), 10)
	if rdb.SetNX(ctx, name, ends, 0).Val() {
		return ends
	}
	old := rdb.Get(ctx, name).Val()
	was, err := strconv.ParseInt(old, 10, 64)
	if err == nil && was < now() && rdb.Do(ctx, "GETSET", name, ends).Val() == old {
		return ends
	}
	return ""
}

// breaks searches schedules with one preemption, and returns whether the lock was seen broken.
func breaks(ctx context.Context, o judge.Options) (broken bool, err error) {
	o.Bounds = explore.Bounds{Preemptions: 1, Schedules: 10_000}
	o.Pairs = 2
	r, err := judge.Run(ctx, o)
	for _, f := range r.Found {
		broken = broken || f.Harm != verify.Outlived
	}
	return broken, err
}

// The gate sets the clock of a static binary, such as this one, but not one inside a word.
func TestClockOfAStaticBinary(t *testing.T) {
	t.Parallel()
	o := options(t, "clock getset", explore.Bounds{})
	o.Pairs = 1
	retried(t, o, func(o judge.Options) error {
		found, err := judge.Replay(t.Context(), o, "x5/any/lock-clock/d1.d1.d1.d1.d2.d2.d2.d2.d2.d1.d1")
		if err == nil && found.Harm != verify.TwoHolders {
			err = fmt.Errorf("%v\n%s", found.Violation, found.Diagram)
		}
		return err
	})

	o = options(t, "clock token", explore.Bounds{})
	o.Pairs = 1
	_, err := judge.Replay(t.Context(), o, "x5/any/lock-clock/d1")
	if err == nil || !strings.Contains(err.Error(), `a clock may be inside "token:1`) {
		t.Errorf("a clock inside a word: %v", err)
	}
}

// Of a static binary, too, a lock by clocks is seen broken, and one by the server's is not.
// With its clock inside a word the promise is unchecked.
func TestSearchesOfAStaticBinary(t *testing.T) {
	alone(t)
	t.Parallel()
	for kind, want := range map[string]bool{"clock getset": true, "clock time": false} {
		o := options(t, kind, explore.Bounds{})
		o.Program = "lock-clock"
		retried(t, o, func(o judge.Options) error {
			broken, err := breaks(t.Context(), o)
			if err == nil && broken != want {
				err = fmt.Errorf("%s is broken: %t, want %t", kind, broken, want)
			}
			return err
		})
	}

	retried(t, options(t, "clock token", explore.Bounds{Preemptions: 1}), func(o judge.Options) error {
		r, err := judge.Judge(t.Context(), o)
		if err != nil {
			return err
		}

		p := r.Promises[3]
		if p.State != "unchecked" || !strings.HasPrefix(p.Why, `a clock may be inside "token:1`) {
			t.Errorf("a clock inside a word: %+v", p)
		}
		return nil
	})
}

// Where faketime can set the clock of a program, the gate finds what it finds.
func TestGateAndFaketimeAgree(t *testing.T) {
	alone(t)
	if _, err := exec.LookPath("faketime"); err != nil {
		testkit.Require(t, "clients", "there is no faketime")
	}

	for _, c := range []struct {
		kind, program string
		broken        bool
	}{
		{"time", "lock-clock", false},
		{"getset", "lock-clock", true},
		{"pxat", "lock-clock-behind", true},
		{"scores", "lock-clock", true},
		{"token", "lock-clock", false}, // which the gate leaves to faketime
		{"signed", "lock-clock", false},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			o := options(t, "", explore.Bounds{})
			o.Command = []string{"/usr/bin/python3", "testdata/clock.py", c.kind}
			o.Program = c.program

			var lacks error // its client library
			for _, o := range []judge.Options{o, o.UnderFaketime()} {
				retried(t, o, func(o judge.Options) error {
					broken, err := breaks(t.Context(), o)
					switch {
					case errors.Is(err, judge.ErrAdapter):
						lacks = err
						return nil
					case err == nil && broken != c.broken:
						err = fmt.Errorf("it is broken: %t, want %t", broken, c.broken)
					}
					return err
				})
			}

			if lacks != nil {
				testkit.Require(t, "clients", lacks.Error())
			}
		})
	}
}
