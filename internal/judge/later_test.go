package judge_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// confirm moves an item and its price if the reservation in the first key still has a token,
// or whatever it has, for an empty token.
var confirm = redis.NewScript(`
if ARGV[1] ~= '' and redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[2], 'funds', -ARGV[2])
redis.call('HINCRBY', KEYS[3], 'funds', ARGV[2])
redis.call('ZREM', KEYS[4], ARGV[3])
redis.call('SADD', KEYS[5], ARGV[4])
redis.call('DEL', KEYS[1])
return 1`)

// buysReserved reserves an item for a lease, reads, and confirms; it never waits. If compares
// is not set, the confirmation does not look whose the reservation is by then.
func buysReserved(ctx context.Context, rdb *redis.Client, compares bool) {
	ms, _ := strconv.Atoi(os.Getenv("LOCK_TTL_MS"))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var word, item, buyer, seller string
		var price int64
		_, _ = fmt.Sscan(in.Text(), &word, &item, &buyer, &seller, &price)
		listing := item + "." + seller
		reservation := "reserved:" + listing
		token := rand.Text()

		if !rdb.SetNX(ctx, reservation, token, time.Duration(ms)*time.Millisecond).Val() {
			fmt.Println("busy")
			continue
		}
		if rdb.ZScore(ctx, "market:", listing).Err() != nil {
			fmt.Println("gone")
			continue
		}

		if !compares {
			token = ""
		}
		keys := []string{
			reservation, "users:" + buyer, "users:" + seller, "market:", "inventory:" + buyer,
		}
		confirmed, err := confirm.Run(ctx, rdb, keys, token, price, listing, item).Int()

		switch {
		case err != nil:
			fmt.Println("error", err)
		case confirmed == 0:
			fmt.Println("busy")
		default:
			fmt.Println("bought")
		}
	}
}

// A buyer may begin only after a lease has passed: another one's reservation has run out by
// then. A buyer that comes before that hears "busy", and has ended.
func TestJudgeHasABuyerBeginLater(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, token string
		want        verify.Harm
	}{
		{"buy reserved", "x5/reserved/one-item/l2.d1.d1.pause1.d2.d2.d2.w1.d1", verify.SoldTwice},
		{"buy reserved", "x5/reserved/one-item/d1.d1.pause1.d2.w1.d1", verify.NoHarm},
		{"buy reserved, compares", "x5/reserved/one-item/l2.d1.d1.pause1.d2.d2.d2.w1.d1", verify.NoHarm},
	} {
		retried(t, options(t, c.kind, explore.Bounds{}), func(o judge.Options) error {
			o.Pairs = 1
			found, err := judge.Replay(t.Context(), o, c.token)
			if harm := found.Harm; err == nil && harm != c.want && (harm != "" || c.want != verify.NoHarm) {
				err = fmt.Errorf("%s: %v, want %s\n%s", c.kind, found.Violation, c.want, found.Diagram)
			}
			return err
		})
	}
}
