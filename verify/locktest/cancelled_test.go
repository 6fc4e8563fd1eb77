package locktest

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
)

// renewsOn is a lock whose renewal goes on when it is released. It compares, so that it changes
// nothing for anybody.
func renewsOn(life context.Context, w Worker) (Lock, io.Closer, error) {
	rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		token := rand.Text()
		if err := setPX(ctx, rdb, name, token, w); err != nil {
			return nil, err
		}

		go func() {
			for locking.Sleep(life, w.TTL/3, nil) == nil {
				_ = renewed.Run(life, rdb, []string{name}, token, w.TTL.Milliseconds()).Err()
			}
		}()

		return func(ctx context.Context) error {
			return compareAndDelete(ctx, rdb, name, token, w)
		}, nil
	}, rdb, nil
}

// What goes wrong when a user gives a call up is found by the check that is about it, on a real
// server, and nothing is where nothing does.
func TestCallsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	watchdog := func(leaks bool) Open {
		return func(life context.Context, w Worker) (Lock, io.Closer, error) {
			k := watched{renewal: renewed, every: w.TTL / 3, leaks: leaks}
			k.options.MaxRetries = -1
			return k.open(life, w)
		}
	}

	const taking, waiting, releasing, renewing = "acquisition that is given", "wait that is given",
		"release that is given", "release ends"

	for _, c := range []struct {
		check  string
		name   string
		open   Open
		renews bool
		says   string // empty: nothing
	}{
		{
			check: taking, name: "renews what it may have", open: watchdog(true), renews: true,
			says: "is not free after",
		},
		{check: taking, name: "stops", open: watchdog(false), renews: true},
		{
			check: taking, name: "keeps what it denies", open: renewedForUsers(false), renews: true,
			says: "is not free after",
		},
		{check: taking, name: "gives it back", open: renewedForUsers(true), renews: true},
		{check: taking, name: "no lease", open: own(setNX, compareAndDelete), says: "is not free after"},
		{check: taking, name: "a lease", open: own(setPX, compareAndDelete)},
		{
			check: waiting, name: "keeps its place in a queue", open: queueThatStays(true),
			says: "is not free after",
		},
		{check: waiting, name: "leaves a queue", open: queueThatStays(false)},
		{
			check: waiting, name: "frees it", open: own(setPXOrDelete, compareAndDelete),
			says: "someone else could take",
		},
		{check: waiting, name: "waits", open: own(setPX, compareAndDelete)},
		{
			check: releasing, name: "forgets its token", open: released(true), renews: true,
			says: "is not free after",
		},
		{check: releasing, name: "keeps its token", open: released(false), renews: true},
		{
			check: renewing, name: "renews on", open: renewsOn, renews: true,
			says: "still renews a lease later",
		},
		{check: renewing, name: "ends its renewal", open: watchdog(false), renews: true},
		{check: renewing, name: "ends it when repeated", open: released(false), renews: true},
	} {
		t.Run(c.check+": "+c.name, func(t *testing.T) {
			t.Parallel()
			played := func() (got suite.Result, messages string) {
				messages = testkit.Try(t, func(t testing.TB) {
					s := &served{t: t}
					factory := c.open.factory(s.at)
					factory.TTL = time.Second
					factory.Renewing = c.renews
					if c.check == waiting { // at many requests, and nothing has to be renewed in time
						factory.TTL = 400 * time.Millisecond
					}
					factory.Patience = 6 * time.Second
					done := func(r suite.Result) {
						got = r
					}
					newSuite(factory, (&adapter{}).Promises()).RunOne(t, named(t, c.check), done)
				})
				return got, messages
			}

			got, messages := played()
			for tries := 1; got.Missing != "" && tries < 3; tries++ { // the machine was too busy for it
				got, messages = played()
			}
			if got.Failed != (c.says != "") || got.Missing != "" || !strings.Contains(messages, c.says) {
				t.Errorf("it says %q, %+v, want %q", messages, got, c.says)
			}
		})
	}
}

// queueThatStays is a lock whose waiters stand in a list. One that gives up leaves it, or stays
// there for good.
func queueThatStays(stays bool) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			leave := func(ctx context.Context) error {
				return rdb.LRem(ctx, name, 0, token).Err()
			}

			err := rdb.RPush(context.WithoutCancel(ctx), name, token).Err()
			for err == nil && rdb.LIndex(context.WithoutCancel(ctx), name, 0).Val() != token {
				err = locking.Sleep(ctx, w.TTL/20, nil)
			}
			for tries := 1; err != nil && !stays && tries <= 3; tries++ {
				if leave(context.WithoutCancel(ctx)) == nil { // it may be the request that is lost
					break
				}
			}
			return leave, err
		}, rdb, nil
	}
}

// setPXOrDelete is what a client does that takes every end of its wait for one of its own lock.
func setPXOrDelete(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error {
	err := setPX(ctx, rdb, name, token, w)
	if err != nil && ctx.Err() != nil {
		_ = rdb.Del(context.WithoutCancel(ctx), name).Err()
	}
	return err
}
