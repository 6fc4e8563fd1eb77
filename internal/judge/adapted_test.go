package judge_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// adapter is the argument that makes this test program the lock to be judged, of the kind
// that follows.
const adapter = "test-adapter"

// adapt is the program to be judged: a lock that is taken by SET NX PX, and released as its
// kind says, or one of those that other files have.
func adapt(kind string) {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{
		Addr: serverAddr(), MaxRetries: -1, DisableIdentity: true, ReadTimeout: 5 * time.Second,
	})
	ms, _ := strconv.Atoi(os.Getenv("LOCK_TTL_MS"))
	l := &adapted{kind: kind, rdb: rdb, ttl: time.Duration(ms) * time.Millisecond}

	switch kind {
	case "buy", "buy late", "buy again", "buy one item":
		buys(ctx, rdb, kind)
		return
	case "buy reserved", "buy reserved, compares":
		buysReserved(ctx, rdb, kind != "buy reserved")
		return
	case "cancel", "cancel stays", "cancel renews", "cancel forgets":
		adaptCancellable(kind)
		return
	case "ends":
		if bufio.NewScanner(os.Stdin).Scan() {
			fmt.Fprintln(os.Stderr, "this is why")
		}
		return
	case "no lease", "looks again":
		l.ttl = 0
	case "dials once":
		rdb.Options().PoolSize = 1
		rdb.Options().Dialer = dialsOnce()
	case "TLS":
		rdb.Options().TLSConfig = &tls.Config{InsecureSkipVerify: true}
	}

	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(l.answer(ctx, strings.Fields(in.Text())))
	}
}

func serverAddr() string { return os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT") }

// An adapted is the lock of a program that is judged, of one of many kinds.
type adapted struct {
	kind        string
	rdb         *redis.Client
	ttl         time.Duration // 0: the lock has no lease
	name, token string        // of the lock that it has, or asks for
	releases    int           // so far
	stuck       bool          // each acquisition waits for good, or is an error
}

// answer does what a request asks for, and returns the answer.
func (l *adapted) answer(ctx context.Context, request []string) string {
	several := &redis.UniversalOptions{Addrs: []string{serverAddr()}, MaxRetries: -1}
	switch l.kind {
	case "other words":
		return "certainly"
	case "no lock", "own lock":
		if l.kind == "own lock" {
			l.rdb.Get(ctx, "configuration")
		}
		return map[bool]string{true: "acquired", false: "released"}[request[0] == "acquire"]
	case "TLS":
		return fmt.Sprint("error ", l.rdb.Ping(ctx).Err())
	case "CLUSTER":
		return fmt.Sprint("error ", redis.NewClusterClient(several.Cluster()).Ping(ctx).Err())
	case "SENTINEL":
		several.MasterName = "mymaster"
		return fmt.Sprint("error ", redis.NewFailoverClient(several.Failover()).Ping(ctx).Err())
	case "READONLY":
		return fmt.Sprint("error ", l.rdb.Do(ctx, "readonly").Err())
	}

	if request[0] == "acquire" {
		return l.acquire(ctx, request[1])
	}
	return l.afterRelease(l.release(ctx))
}

// acquire takes the lock, however long that takes.
func (l *adapted) acquire(ctx context.Context, name string) string {
	if l.stuck && l.kind == "fails" {
		return "error it takes no more locks"
	}
	if l.stuck {
		time.Sleep(time.Hour)
	}
	if l.kind == "tells" {
		fmt.Fprintln(os.Stderr, "asked")
	}

	l.name = name
	l.token = rand.Text()
	for !l.take(ctx) {
		if l.kind == "ends when it waits" {
			fmt.Fprintln(os.Stderr, "it cannot wait")
			os.Exit(1)
		}
		if l.kind == "prolongs" {
			l.rdb.PExpire(ctx, l.name, l.ttl)
		}
		pause := 2 * time.Millisecond
		// so that the lease seems longer than it is
		if l.kind == "polls seldom" && strings.HasPrefix(name, "lease") {
			pause = 400 * time.Millisecond
		}
		time.Sleep(pause)
	}
	return map[bool]string{true: "acquired 1", false: "acquired"}[l.kind == "says one"]
}

// take tries once.
func (l *adapted) take(ctx context.Context) bool {
	if strings.HasPrefix(l.kind, "clock ") {
		l.token = takesByClock(ctx, l.rdb, l.kind, l.name, l.ttl)
		return l.token != ""
	}
	if l.kind == "looks again" {
		return l.looksAgain(ctx)
	}
	return l.rdb.SetNX(ctx, l.name, l.token, l.ttl).Val()
}

// looksAgain takes the lock if nobody has it, and has it once it has seen its token there. It
// asks who has it without a pause. A lease would end the wait of one that never sees its token.
func (l *adapted) looksAgain(ctx context.Context) bool {
	for {
		switch l.rdb.Get(ctx, l.name).Val() {
		case "":
			l.rdb.SetNX(ctx, l.name, l.token, l.ttl)
		case l.token:
			return true
		}
	}
}

// release frees the lock, and returns 1 if it had it, as far as its kind can tell.
func (l *adapted) release(ctx context.Context) (int64, error) {
	switch l.kind {
	case "get-del":
		if l.rdb.Get(ctx, l.name).Val() != l.token {
			return 0, nil
		}
	case "stays":
		l.rdb.Persist(ctx, l.name)
		return 1, nil
	case "compare", "looks again",
		"clock getset", "clock time", "clock token", "polls seldom", "says one",
		"tells", "stuck", "fails", "lost at first", "lost":
		compareAndDelete := redis.NewScript(
			`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`)
		return compareAndDelete.Run(ctx, l.rdb, []string{l.name}, l.token).Int64()
	}

	return l.rdb.Del(ctx, l.name).Result()
}

// afterRelease is the answer after a release that has freed so many locks.
func (l *adapted) afterRelease(freed int64, err error) string {
	if err != nil && (l.kind == "stuck" || l.kind == "fails") { // it forgets to give its mutex back
		l.stuck = true
	}

	l.releases++
	said := map[bool]string{true: "released", false: "lost"}[freed == 1]
	if l.kind == "lost at first" && l.releases == 2 {
		said = "error it could not connect in time"
	}
	if l.kind == "lost" || l.kind == "lost at first" && l.releases != 2 && l.releases < 4 {
		said = "lost"
	}
	if err != nil {
		said = "error " + err.Error()
	}
	return said
}

// dialsOnce is the dialer of a client that does not connect again.
func dialsOnce() func(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialled atomic.Bool
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialled.Swap(true) {
			return nil, errors.New("its only connection has broken")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// buys buys under WATCH: as it should, after reading before the WATCH, or once
// more after an unknown outcome.
func buys(ctx context.Context, rdb *redis.Client, kind string) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var word, item, buyer, seller string
		var price int64
		_, _ = fmt.Sscan(in.Text(), &word, &item, &buyer, &seller, &price)
		said := ""

		if kind == "buy one item" && item != "1" {
			return
		}

		// reads finds out why it cannot be bought, or leaves what is said empty.
		reads := func() {
			listed, err := rdb.ZScore(ctx, "market:", item+"."+seller).Result()
			funds, _ := rdb.HGet(ctx, "users:"+buyer, "funds").Int64()
			if err != nil || int64(listed) != price {
				said = "gone"
			} else if funds < price {
				said = "funds"
			}
		}

		buy := func(tx *redis.Tx) error {
			if kind != "buy late" {
				reads()
			}
			if said != "" {
				return nil
			}
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.HIncrBy(ctx, "users:"+buyer, "funds", -price)
				p.HIncrBy(ctx, "users:"+seller, "funds", price)
				p.ZRem(ctx, "market:", item+"."+seller)
				p.SAdd(ctx, "inventory:"+buyer, item)
				return nil
			})
			return err
		}

		// "buy again" repeats also what may have been applied.
		err := error(redis.TxFailedErr)
		for errors.Is(err, redis.TxFailedErr) || err != nil && kind == "buy again" {
			if kind == "buy late" {
				reads()
			}
			err = rdb.Watch(ctx, buy, "market:", "users:"+buyer)
		}

		if err != nil {
			said = "error " + err.Error()
		}
		fmt.Println(cmp.Or(said, "bought"))
	}
}
