package locktest

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
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

// overMasters is redsync as its documentation has it for several masters, which
// it asks all at once.
func overMasters(ctx context.Context, w Worker) (Lock, io.Closer, error) {
	return mastersWith(ctx, w, redsync.WithRetryDelay(600*time.Millisecond))
}

func mastersWith(_ context.Context, w Worker, options ...redsync.Option) (Lock, io.Closer, error) {
	var pools []redsyncredis.Pool
	var clients all
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr, Dialer: w.Dial, MaxRetries: -1})
		clients, pools = append(clients, rdb), append(pools, goredis.NewPool(rdb))
	}

	rs := redsync.New(pools...)
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		m := rs.NewMutex(name, append(options, redsync.WithExpiry(w.TTL), redsync.WithTries(8))...)
		err := m.LockContext(ctx)
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, err
	}, clients, nil
}

// Each address is a master of its own, all of which redsync asks at once, in any order.
// As with Redlock no single fault does more than that a lease is outlived
// (results/explored/redlock.json). MARKETSIM_EXPLORE adds a preemption.
func TestExploreMasters(t *testing.T) {
	bounds := explore.Bounds{
		Faults: 1, Exhaustive: true,
		Kinds: []explore.Fault{
			explore.Pause, explore.Die, explore.Lose, explore.Drop, explore.Empty, explore.ServerClock,
		},
	}
	if os.Getenv("MARKETSIM_EXPLORE") != "" {
		bounds.Preemptions = 1
	}

	r, err := search(t, overMasters, bounds, works[0], nil)
	if err != nil {
		t.Fatal(err)
	}

	outlived := len(r.Found) == 1 && r.Found[0].Harm == verify.Outlived
	if !outlived || !strings.Contains(r.Found[0].Diagram.String(), "master 3: ") {
		t.Error(r)
	}
	t.Log(r.Bound())
}

// Two faults as far as redlock was explored with them
// (results/explored/redlock.json), with the same verdicts: what two masters lose lets
// two in, or what one loses and another has never got.
func TestExploreMastersWithTwoFaults(t *testing.T) {
	if os.Getenv("MARKETSIM_EXPLORE") != "masters" {
		t.Skip("takes 25 minutes: set MARKETSIM_EXPLORE=masters")
	}

	for pair, harm := range map[[2]explore.Fault]bool{
		{explore.Empty, explore.Empty}:             true,
		{explore.Empty, explore.Drop}:              true,
		{explore.Empty, explore.ServerClock}:       true,
		{explore.ServerClock, explore.ServerClock}: true,
		{explore.ServerClock, explore.Drop}:        true,
		{explore.Empty, explore.Die}:               false,
		{explore.Empty, explore.Lose}:              false,
		{explore.ServerClock, explore.Lose}:        false,
	} {
		t.Run(string(pair[0]+" and "+pair[1]), func(t *testing.T) {
			kinds := slices.Compact(pair[:])
			bounds := explore.Bounds{Preemptions: 1, Faults: 2, Kinds: kinds, Once: len(kinds) == 2}
			r, err := search(t, overMasters, bounds, works[0], nil)
			if err != nil {
				t.Fatal(err)
			}

			if found := len(r.Found) > 0; found != harm || harm && r.Found[0].Harm != verify.TwoHolders {
				t.Error(r)
			}
			t.Log(r.Bound())
		})
	}
}

// Check starts a server for each of the masters: on one alone, no majority would take the
// lock. A reply may take as long as the lease, because redsync's own twentieth of it is
// too short for a machine that is busy.
func TestCheckMasters(t *testing.T) {
	if !testkit.Long() {
		t.Skip("it starts servers for every check: set MARKETSIM_LONG=all")
	}
	t.Parallel()
	Check(t, func(ctx context.Context, w Worker) (Lock, io.Closer, error) {
		return mastersWith(ctx, w, redsync.WithTimeoutFactor(1), redsync.WithRetryDelay(10*time.Millisecond))
	})
}
