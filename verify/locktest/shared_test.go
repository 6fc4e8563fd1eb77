package locktest

import (
	"context"
	"crypto/rand"
	"io"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// The readers of a lock are members of a set, scored by when their leases end, or of a
// hash that expires as a whole.
var (
	readScored = redis.NewScript(`local now = redis.call('TIME'); now = now[1] * 1000 + math.floor(now[2] / 1000)
		if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
		redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) return 1`)
	writeScored = redis.NewScript(`local now = redis.call('TIME'); now = now[1] * 1000 + math.floor(now[2] / 1000)
		redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now)
		if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
		return redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0`)
	readHashed = redis.NewScript(`if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
		redis.call('HSET', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1`)
	writeHashed = redis.NewScript(`if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
		return redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0`)
	leave = redis.NewScript(`if redis.call('GET', KEYS[2]) == ARGV[1] then return redis.call('DEL', KEYS[2]) end
		if redis.call('TYPE', KEYS[1]).ok == 'zset' then return redis.call('ZREM', KEYS[1], ARGV[1]) end
		return redis.call('HDEL', KEYS[1], ARGV[1])`)
)

// readers makes a lock that readers share, of the scripts by which they and a
// writer take it.
func readers(read, write *redis.Script) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		take := write
		if w.Shared {
			take = read
		}

		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token, keys := rand.Text(), []string{name + ":readers", name}
			unlock := func(ctx context.Context) error {
				return leave.Run(ctx, rdb, keys, token).Err()
			}
			taken, err := take.Run(ctx, rdb, keys, token, w.TTL.Milliseconds()).Int()
			if err == nil && taken == 0 {
				err = errHeld
			}
			return unlock, err
		}, rdb, nil
	}
}

// If the last reader says when the leases of all end, a writer gets in while a reader
// with a longer lease is inside. If each reader has a lease of its own, the only harm
// is that leases are outlived.
func TestExploreShared(t *testing.T) {
	for name, test := range map[string]struct {
		open Open
		harm verify.Harm
	}{
		"a lease each":      {readers(readScored, writeScored), verify.Outlived},
		"a lease for all":   {readers(readHashed, writeHashed), verify.TwoHolders},
		"readers as others": {readers(writeScored, writeScored), verify.Outlived},
	} {
		t.Run(name, func(t *testing.T) {
			without(t, true)
			bounds := explore.Bounds{Preemptions: 1, Faults: 1, Total: 1, Kinds: withoutCancel}

			reports := searchAll(t, sharedWorks, test.open, bounds, nil)
			for _, r := range reports {
				t.Log(r.Bound())
			}

			sound := test.harm == verify.Outlived
			for _, f := range foundOf(reports) {
				if sound && !f.Harm.IsNote() {
					t.Errorf("found %s\n%s", f.Harm, f.Diagram)
				}
			}
			if !slices.Contains(harmsOf(reports), test.harm) {
				t.Errorf("%s is not found", test.harm)
			}
		})
	}
}
