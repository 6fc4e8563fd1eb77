package suite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify/explore"
)

// Search is explore.Search for a test. It calls found for each harm when it is found (found
// may be nil), and with go test -v prints every 10 s how far it is. It ends some time before
// the test's deadline: what is known by then would else be lost with the process.
func Search(
	t *testing.T, p explore.Program, b explore.Bounds, found func(explore.Found),
) (*explore.Report, error) {
	t.Helper()
	ctx := t.Context()
	if deadline, has := t.Deadline(); has {
		before, cancel := endsBefore(ctx, deadline, timeout())
		defer cancel()
		ctx = before
	}

	p.OnFound = found
	if testing.Verbose() {
		p.OnProgress = func(soFar *explore.Report) {
			fmt.Fprintf(t.Output(), "%s: %s\n", p.Name, soFar.Progress())
		}
	}
	return explore.Search(ctx, p, b)
}

// errTestEnds is why the search was stopped, as a report says it.
var errTestEnds = errors.New("the deadline of the test")

// endsBefore is a context that ends before the deadline of tests that may take some time: by
// a tenth of that, 10 s at most. Searches that come after this play a schedule or two each,
// so that the tenth has to do for all of them: if it were one of what is left, the last would
// have next to nothing.
func endsBefore(
	ctx context.Context, deadline time.Time, timeout time.Duration,
) (context.Context, context.CancelFunc) {
	margin := min(10*time.Second, timeout/10)
	return context.WithDeadlineCause(ctx, deadline.Add(-margin), errTestEnds)
}

// timeout is how long all tests of this process may take; 0: as long as they take.
func timeout() time.Duration {
	value, is := flag.Lookup("test.timeout").Value.(flag.Getter)
	if !is {
		return 0
	}
	d, _ := value.Get().(time.Duration)
	return d
}

// Bound is the sentence that says how far a search has gone: see explore.Report. If time has
// ended it, that says what lets it go on.
func Bound(r *explore.Report) string {
	more := ""
	switch r.Stopped {
	case errTestEnds.Error():
		more = fmt.Sprintf("go test with a longer -timeout than %s", timeout())
	case search.OutOfTime:
		more = fmt.Sprintf("a longer Bounds.Time than %s", r.Bounds.Time)
	default:
		return r.Bound()
	}
	return fmt.Sprintf("%s; %s are known and not played: %s lets it go on", r.Bound(),
		english.Plural(r.Left, "schedule", ""), more)
}

// SearchesAlone ends a parallel test: while a search runs, it fixes sources of chance and
// the resolver of names, which the whole process shares.
func SearchesAlone(t testing.TB) {
	t.Helper()
	defer func() {
		if recover() != nil {
			t.Fatal("a search needs the process for itself: " +
				"take t.Parallel out of this test, and of those around it")
		}
	}()
	t.Setenv("MARKETSIM_SEARCHES_ALONE", "1") // which panics in a parallel test
}
