package lock

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// fenced is set-px with a counter: the script that takes the lock increments a second key, which never expires, and the
// holder gets that number (see Fencer). What the lock protects can then refuse a writer whose number is smaller than
// one that it has seen. It promises what set-px promises, and that each holder gets a larger number than all before.
//
// What breaks it: as long as nobody compares the numbers, what breaks set-px. The numbers start again when the counter
// is lost: a server that comes back without its data, a failover to a replica that had not received the last ones.
//
// Source: M. Kleppmann, "How to do distributed locking", 2016.
func fenced() Kind {
	return polling(Kind{
		Name:    "fenced",
		Summary: "set-px, with a counter that gives each holder a larger number",
		Source:  "Kleppmann, How to do distributed locking",
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fenced: true,
		},
		Params: []param.Param{TTLParam, PollParam, TimeoutParam},
		Keys:   fencedKeys,
		Renews: true,
	}, func(l redisLease) grant { return &fencedLease{setPXLease: setPXLease{redisLease: l}} })
}

// fencedKeys are the lock's key and the counter of its holders.
func fencedKeys(key string) []string { return []string{key, key + ":fence"} }

//go:embed fenced_take.lua
var fencedTakeText string

var fencedTake = redis.NewScript(fencedTakeText)

type fencedLease struct {
	setPXLease
	number int64
}

// take implements grant.
func (l *fencedLease) take(ctx context.Context) (bool, error) {
	number, err := fencedTake.Run(ctx, l.rdb, fencedKeys(l.key), l.token, l.ttl().Milliseconds()).Int64()
	if err != nil {
		return false, Abandon(ctx, err, l.Release)
	}
	l.number = number
	return number > 0, nil
}

// Fence implements Fencer.
func (l *fencedLease) Fence() int64 { return l.number }
