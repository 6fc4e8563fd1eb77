package compare_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/verify/locktest"
)

func TestMain(m *testing.M) {
	redisconn.QuietLogs()
	testkit.VerifyNoLeaks(m)
}

var (
	oneEach = result.Mix{Sellers: 1, Buyers: 1}
	short   = compare.Options{Duration: 60 * time.Millisecond, Rounds: 9}
)

// openNX opens a lock whose holder works for some time, and keeps a second key.
func openNX(work time.Duration) locktest.Open {
	return func(_ context.Context, w locktest.Worker) (locktest.Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			err := rdb.SetArgs(ctx, name, w.Number, redis.SetArgs{Mode: "NX", TTL: w.TTL}).Err()
			if err != nil {
				return nil, err
			}

			return func(context.Context) error {
				time.Sleep(work)
				rdb.Set(context.Background(), name+":last", w.Number, 0)
				return rdb.Del(context.Background(), name).Err()
			}, nil
		}, rdb, nil
	}
}

// TestLock: a lock that is much slower than SET NX PX is found to be, on a server of
// the user's, on which nothing of it is left.
func TestLock(t *testing.T) {
	t.Parallel()
	server := testkit.Local(t)
	o := short
	o.URL = "redis://:" + server.Target.Password + "@" + server.Target.Addr
	c := testkit.Must(compare.Lock(t.Context(), openNX(5*time.Millisecond), oneEach, o))(t)

	if len(c.Rows) != 27 {
		t.Fatalf("%d rows, want 9 rounds of 3", len(c.Rows))
	}
	bought := map[string]int64{} // in all rounds: while a row lasts, a busy machine may stand still
	for _, row := range c.Rows {
		bought[row.Strategy] += row.Bought
		if !row.Audit.OK {
			t.Errorf("the audit of %s: %+v", row.Name(), row.Audit)
		}
	}
	if bought["fine:set-px"] == 0 || bought["fine:set-px#2"] == 0 {
		t.Errorf("bought were %v", bought)
	}
	if !strings.Contains(c.String(), c.Verdict) || !strings.Contains(c.String(), "fine:mine") {
		t.Errorf("%q is printed as\n%s", c.Verdict, c)
	}
	// A busy machine, or rows without a purchase, may leave it undecided.
	if verdicts := []string{"slower", "not decided"}; !slices.Contains(verdicts, c.Verdict) || c.Ratio > 1 {
		t.Errorf("%s, %v times: want one of %q", c.Verdict, c.Ratio, verdicts)
	}
	if c.Verdict == "slower" && !(c.Low <= c.Ratio && c.Ratio <= c.High && c.High < 1) {
		t.Errorf("slower: %v from %v to %v", c.Ratio, c.Low, c.High)
	}
	if left := testkit.Dial(t, server).Keys(t.Context(), "*").Val(); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestPurchaserThatIsWrong: a market that is wrong decides nothing, and says so.
func TestPurchaserThatIsWrong(t *testing.T) {
	t.Parallel()
	spec := testkit.Must(strategies.Builtin().Parse("unsafe"))(t)
	o := short
	o.Load = result.Load{Hot: 1, HoldMS: 1}
	c := testkit.Must(compare.Purchaser(t.Context(), spec.OpenFor, result.Mix{Buyers: 4}, o))(t)
	if c.Verdict != "not decided" || c.Reason == "" || !strings.Contains(c.String(), "AUDIT FAILED") {
		t.Errorf("%s, %q:\n%s", c.Verdict, c.Reason, c)
	}
}

// TestRefuses what decides nothing, and ends when it is interrupted.
func TestRefuses(t *testing.T) {
	t.Parallel()
	fewer := short
	fewer.Rounds = 3
	_, err := compare.Lock(t.Context(), openNX(0), oneEach, fewer)
	if !errors.Is(err, bench.ErrPoint) || !strings.Contains(err.Error(), "a verdict takes 7 or more") {
		t.Errorf("3 rounds: %v, want %v", err, bench.ErrPoint)
	}

	broken := errors.New("broken")
	open := func(context.Context, locktest.Worker) (locktest.Lock, io.Closer, error) { return nil, nil, broken }
	if _, err := compare.Lock(t.Context(), open, oneEach, short); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := compare.Lock(over, openNX(0), oneEach, short); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
