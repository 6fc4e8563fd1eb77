package locktest

import (
	"context"
	"crypto/rand"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// extendable is a client that extends the lock which it has taken last.
type extendable struct {
	io.Closer
	extend func(ctx context.Context, name string) error
}

func (e extendable) Extend(ctx context.Context, name string) error { return e.extend(ctx, name) }

// extendedBy is SET NX PX with an extension, which is told the token of the last lock.
func extendedBy(
	extend func(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error) Open {

	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		var last atomic.Pointer[string]

		take := func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			err := setPX(ctx, rdb, name, token, w)
			if err == nil {
				last.Store(&token)
			}
			return func(ctx context.Context) error {
				return compareAndDelete(ctx, rdb, name, token, w)
			}, err
		}

		again := func(ctx context.Context, name string) error {
			return extend(ctx, rdb, name, *last.Load(), w)
		}
		return take, extendable{Closer: rdb, extend: again}, nil
	}
}

func compareAndExpire(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error {
	return orHeld(renewed.Run(ctx, rdb, []string{name}, token, w.TTL.Milliseconds()).Bool())
}

func expire(ctx context.Context, rdb *redis.Client, name, _ string, w Worker) error {
	return orHeld(rdb.PExpire(ctx, name, w.TTL).Result())
}

func saysYes(ctx context.Context, rdb *redis.Client, name, _ string, _ Worker) error {
	return rdb.Exists(ctx, name).Err()
}

// extendedByRedsync extends as its documentation says. With an option it takes a lock again that
// has expired, though another client may have had it since.
func extendedByRedsync(options ...redsync.Option) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		rs := redsync.New(goredis.NewPool(rdb))
		var last atomic.Pointer[redsync.Mutex]

		take := func(ctx context.Context, name string) (func(context.Context) error, error) {
			m := rs.NewMutex(name, append(options, redsync.WithExpiry(w.TTL), redsync.WithTries(1))...)
			err := m.LockContext(ctx)
			if err == nil {
				last.Store(m)
			}
			return func(ctx context.Context) error {
				_, err := m.UnlockContext(ctx)
				return err
			}, err
		}

		extend := func(ctx context.Context, _ string) error {
			return orHeld(last.Load().ExtendContext(ctx))
		}
		return take, extendable{Closer: rdb, extend: extend}, nil
	}
}

// What an extension says of a lease that has ended is judged.
func TestExploreExtend(t *testing.T) {
	for name, test := range map[string]struct {
		open  Open
		harms []verify.Harm // sorted, without notes
	}{
		"compares": {extendedBy(compareAndExpire), nil},
		"extends anybody's": {
			extendedBy(expire), []verify.Harm{verify.ExtendedLost, verify.TwoHolders},
		},
		"does nothing": {
			extendedBy(saysYes), []verify.Harm{verify.ExtendedLost, verify.TwoHolders},
		},
		"redsync": {extendedByRedsync(), nil},
		"redsync takes it again": {
			extendedByRedsync(redsync.WithSetNXOnExtend()), []verify.Harm{verify.ExtendedLost},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reports := searchAll(t, works, test.open, explore.Bounds{Preemptions: 1}, nil)
			harms := slices.DeleteFunc(harmsOf(reports), verify.Harm.IsNote)
			if !slices.Equal(harms, test.harms) {
				t.Errorf("it finds %q, want %q\n%s", harms, test.harms, reports)
			}

			if last := reports[len(reports)-1].Program.Name; last != "lock-extended-after-anothers" {
				t.Errorf("the last program is %s", last)
			}
		})
	}
}

// confined is a client whose Lock is documented as one of a single goroutine.
type confined struct{ io.Closer }

func (confined) Confined() {}

// oneObject is a lock whose client has one object for each name. It has one token for good,
// with which it finds its own lock and says yes (zeromicro/go-zero, issue 4325), or looks
// whether it has the lock already.
func oneObject(looks, isConfined bool) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		token := rand.Text()
		holds := make(chan struct{}, 1)
		take := redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then
			redis.call("PEXPIRE", KEYS[1], ARGV[2]) return 1 end
			return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) and 1 or 0`)
		var closer io.Closer = rdb
		if isConfined {
			closer = confined{rdb}
		}

		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			if looks {
				select {
				case holds <- struct{}{}:
				default:
					return nil, errHeld
				}
			}
			over := func() {
				if looks {
					<-holds
				}
			}

			err := orHeld(take.Run(ctx, rdb, []string{name}, token, w.TTL.Milliseconds()).Bool())
			if err != nil {
				over()
			}

			released := false
			return func(ctx context.Context) error {
				err := compareAndDelete(ctx, rdb, name, token, w)
				if err == nil && !released {
					released = true
					over()
				}
				return err
			}, err
		}, closer, nil
	}
}

// Two goroutines that take the lock with one object, which lets both in, are a harm, and a note
// where its documentation says so.
func TestExploreOneObjectOfTwoGoroutines(t *testing.T) {
	i := slices.IndexFunc(works, func(w work) bool {
		return w.goroutines
	})

	for name, test := range map[string]struct {
		open  Open
		harms []verify.Harm // sorted
	}{
		"a token for each lock": {own(setPX, compareAndDelete), nil},
		"a token for good": {
			oneObject(false, false), []verify.Harm{verify.ReleasedNothing, verify.TwoHolders},
		},
		"is documented":  {oneObject(false, true), []verify.Harm{verify.HeldByTwoGoroutines}},
		"looks":          {oneObject(true, false), nil},
		"asks once more": {own(setPXThenGet, compareAndDelete), nil},
	} {
		t.Run(name, func(t *testing.T) {
			bounds := explore.Bounds{
				Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.Pause, explore.Late},
			}

			text, harms := judged(t, works[i:i+1], test.open, bounds)
			// What a fault does to any lock that expires is of no interest here.
			harms = slices.DeleteFunc(harms, func(h verify.Harm) bool {
				return h == verify.Outlived || h == verify.Orphaned
			})
			if !slices.Equal(harms, test.harms) {
				t.Errorf("it finds %q, want %q\n%s", harms, test.harms, text)
			}
		})
	}
}

// Check has an extension that says yes to whoever has lost the lock fail.
func TestCheckExtend(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	for _, c := range []struct {
		name, check string
		open        Open
		says        string // empty: nothing
	}{
		{"compares", "renewal keeps", extendedBy(compareAndExpire), ""},
		{"compares", "renewal of a lost", extendedBy(compareAndExpire), ""},
		{
			"extends anybody's", "renewal of a lost", extendedBy(expire),
			"a lock that someone else has: <nil>",
		},
		{"redsync", "renewal of a lease", extendedByRedsync(), ""},
		{
			"redsync takes it again", "renewal of a lease", extendedByRedsync(redsync.WithSetNXOnExtend()),
			"someone else has had the lock: <nil>",
		},
	} {
		t.Run(c.check+": "+c.name, func(t *testing.T) {
			t.Parallel()
			var got suite.Result
			messages := testkit.Try(t, func(t testing.TB) {
				s := &served{t: t}
				factory := c.open.factory(s.at)
				factory.TTL = 500 * time.Millisecond
				done := func(r suite.Result) {
					got = r
				}
				newSuite(factory, (&adapter{}).Promises()).RunOne(t, named(t, c.check), done)
			})

			if got.Failed != (c.says != "") || got.Missing != "" || !strings.Contains(messages, c.says) {
				t.Errorf("it says %q, %+v, want %q", messages, got, c.says)
			}
		})
	}
}
