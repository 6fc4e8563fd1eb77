package locktest

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// all are closers.
type all []io.Closer

func (a all) Close() (err error) {
	for _, c := range a {
		err = errors.Join(err, c.Close())
	}
	return err
}

// overMasters is redsync as its documentation has it for several masters, which it asks all at once.
func overMasters(_ context.Context, w Worker) (Lock, io.Closer, error) {
	var pools []redsyncredis.Pool
	var clients all
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr, Dialer: w.Dial, MaxRetries: -1})
		clients, pools = append(clients, rdb), append(pools, goredis.NewPool(rdb))
	}
	rs := redsync.New(pools...)
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(w.TTL), redsync.WithTries(8), redsync.WithRetryDelay(600*time.Millisecond))
		err := m.LockContext(ctx)
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, err
	}, clients, nil
}

// Each address is a master of its own, all of which redsync asks at once, in any order. What Redlock does is found of
// it, too: with one fault only that a lease is outlived, and two holders where a master starts empty and another one
// was not reached: issue 186 of go-redsync/redsync.
func TestExploreMasters(t *testing.T) {
	const empty, drop = explore.Empty, explore.Drop
	for _, c := range []struct {
		bounds explore.Bounds
		harm   verify.Harm
	}{
		{explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Pause, explore.Die, drop, empty}}, verify.Outlived},
		{explore.Bounds{Preemptions: 1, Faults: 2, Kinds: []explore.Fault{empty, drop}, Once: true}, verify.TwoHolders},
	} {
		if os.Getenv("MARKETSIM_EXPLORE") != "" {
			c.bounds.Preemptions = 1
		}
		c.bounds.Exhaustive = c.bounds.Preemptions == 0
		began := time.Now()
		r, err := searched(t, overMasters, c.bounds, works[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(began), r.Bound())
		for _, f := range r.Found {
			if f.Harm != c.harm && f.Harm != verify.Outlived {
				t.Errorf("%s", r)
			}
		}
		if !slices.ContainsFunc(r.Found, func(f explore.Found) bool { return f.Harm == c.harm }) {
			t.Errorf("%s was not found: %s", c.harm, r.Bound())
		}
	}
}
