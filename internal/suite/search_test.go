package suite

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify/explore"
)

// A search ends before its test's deadline: by 10 s, or by a tenth of the time that all tests
// have together.
func TestEndsBefore(t *testing.T) {
	for _, c := range []struct{ timeout, left, want time.Duration }{
		{10 * time.Minute, 10 * time.Minute, 10*time.Minute - 10*time.Second},
		{10 * time.Minute, time.Minute, 50 * time.Second},
		{20 * time.Second, 5 * time.Second, 3 * time.Second},
		{20 * time.Second, time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := endsBefore(t.Context(), began.Add(c.left), c.timeout)
			defer cancel()
			<-ctx.Done()
			if took := time.Since(began); took != c.want || !errors.Is(context.Cause(ctx), errTestEnds) {
				t.Errorf("with %s left of %s it ends after %s, want %s: %v",
					c.left, c.timeout, took, c.want, context.Cause(ctx))
			}
		})
	}
}

// What a test may take is that of go test.
func TestTimeout(t *testing.T) {
	if got, want := timeout().String(), flag.Lookup("test.timeout").Value.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What time has stopped says what lets it go on, and whatever else has stopped, nothing.
func TestBound(t *testing.T) {
	for stopped, want := range map[string]string{
		errTestEnds.Error(): "; stopped by the deadline of the test; 7 schedules are known and not played: " +
			"go test with a longer -timeout than " + timeout().String() + " lets it go on",
		search.OutOfTime: "; stopped by the time that it was given; 7 schedules are known and not played: " +
			"a longer Bounds.Time than 1m0s lets it go on",
		"an interruption": "; stopped by an interruption",
	} {
		r := &explore.Report{Bounds: explore.Bounds{Time: time.Minute}, Stopped: stopped, Left: 7}
		if got := Bound(r); !strings.HasSuffix(got, want) {
			t.Errorf("%s\nwant it to end with\n%s", got, want)
		}
	}
}
