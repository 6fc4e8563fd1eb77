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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// adapter is the argument that makes this test program the lock to be judged, of the kind
// that follows.
const adapter = "test-adapter"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == adapter { // controls have a word more
		adapt(os.Args[2])
		return
	}

	if os.Getenv("NODE_PATH") == "" { // for all programs in Node.js: Debian's packages are there
		_ = os.Setenv("NODE_PATH", "/usr/share/nodejs")
	}
	testkit.MaxParallel(8) // they mostly wait
	testkit.VerifyNoLeaks(m)
}

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
	case "no lease":
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
	return l.rdb.SetNX(ctx, l.name, l.token, l.ttl).Val()
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
	case "compare", "clock getset", "clock time", "clock token", "polls seldom", "says one",
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

// options judge this program as a lock of a kind.
func options(t *testing.T, kind string, b explore.Bounds) judge.Options {
	t.Helper()
	testkit.Local(t) // or there is nothing to judge it on
	b.Exhaustive, b.Schedules = true, 10_000
	return judge.Options{Command: []string{os.Args[0], adapter, kind}, Bounds: b, Pairs: 4}
}

// retried tries with longer and longer leases, so that a machine that stands still
// for a moment does not matter.
func retried(t *testing.T, o judge.Options, do func(judge.Options) error) {
	t.Helper()
	var err error
	for o.Lease = 500 * time.Millisecond; o.Lease <= 4*time.Second; o.Lease *= 2 {
		err = do(o)
		if err == nil {
			return
		}
		t.Logf("with leases of %s: %v", o.Lease, err)
	}
	t.Error(err)
}

// A release by GET, then DEL, and one by DEL, free another's lock. One that lets it
// last for ever keeps others out.
func TestReplayOfAToken(t *testing.T) {
	alone(t)
	t.Parallel()
	for _, c := range []struct {
		kind, token string
		harm        verify.Harm
	}{
		{"get-del", "x5/getdel/lock/d1.d1.d1.pause1.d2.w1.d1.d1.d1.d1.d1.d2.d2", verify.FreedAnothers},
		{"fixed", "x5/fixed/lock/d1.d1.pause1.d2.w1.d1.d1.d1.d1.d2.d2", verify.FreedAnothers},
		{"stays", "x5/stays/lock/d1.d1.d1.d1.d2", verify.LockedOut},
	} {
		retried(t, options(t, c.kind, explore.Bounds{}), func(o judge.Options) error {
			found, err := judge.Replay(t.Context(), o, c.token)
			if err == nil && found.Harm != c.harm {
				err = fmt.Errorf("%s: %v, want %s\n%s", c.kind, found.Violation, c.harm, found.Diagram)
			}
			return err
		})
	}
}

// What goes wrong with a later program is told, and what was found before it counts.
func TestJudgeTellsOfALaterProgram(t *testing.T) {
	retried(t, options(t, "buy one item", explore.Bounds{}), func(o judge.Options) error {
		o.Purchase = true
		o.Pairs = 2
		r, err := judge.Judge(t.Context(), o)
		if r == nil || len(r.Searches) != 2 || r.Searches[0].Why != "" {
			return fmt.Errorf("%+v: %w", r, err)
		}
		why := r.Searches[1].Why
		if !errors.Is(err, judge.ErrAdapter) || !strings.Contains(why, "has ended") {
			t.Errorf("a program that does not buy from one account: %v, and stored is %q", err, why)
		}
		return nil
	})
}

// finds checks which harms a search finds in a lock if its clients are stopped.
// It takes a machine of its own.
func finds(t *testing.T, o judge.Options, want ...verify.Harm) {
	t.Helper()
	retried(t, o, func(o judge.Options) error {
		r, err := judge.Run(t.Context(), o)
		if err != nil {
			return err
		}

		var harms []verify.Harm
		for _, f := range r.Found {
			harms = append(harms, f.Harm)
		}
		slices.Sort(harms)
		if !slices.Equal(harms, want) {
			return fmt.Errorf("%q: %q, want %q: %+v", o.Command, harms, want, r.Found)
		}
		return nil
	})
}

var stops = explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Pause}}

// alone skips a search that would conclude nothing while many other tests run. CI has two such
// tests at the same time, which mostly wait: as many as are parallel.
func alone(t *testing.T) {
	t.Helper()
	if os.Getenv("MARKETSIM_JUDGE") == "" {
		t.Skip("takes a machine of its own: set MARKETSIM_JUDGE=all")
	}
}

func TestJudgeFindsWhatIsWrong(t *testing.T) {
	alone(t)
	t.Parallel()
	finds(t, options(t, "polls seldom", stops), verify.Outlived)
	finds(t, options(t, "get-del", stops), verify.FreedAnothers, verify.NotTold, verify.Outlived)
}

// A promise is kept only where something has put it to the test and the search has come far
// enough, and broken where that shows the contrary.
func TestJudgedPromises(t *testing.T) {
	alone(t)
	t.Parallel()
	floor := explore.Bounds{Preemptions: 1, Faults: 1, Total: 1}
	retried(t, options(t, "says one", floor), func(o judge.Options) error {
		r, err := judge.Judge(t.Context(), o)
		if err != nil {
			return err
		}
		var states []string
		for _, p := range r.Promises {
			states = append(states, p.State)
		}
		want := []string{"kept", "kept", "kept", "kept", "broken", "kept", "not offered", "kept"}
		if !slices.Equal(states, want) {
			return fmt.Errorf("%q, want %q: %+v", states, want, r.Promises)
		}

		const trusts = "clock-independent: no clock was seen in what follows, and it was trusted: " +
			"SET argument 2 and EVALSHA argument 4"
		if !slices.Contains(r.Notes, trusts) {
			t.Errorf("the notes are %q, want %q", r.Notes, trusts)
		}

		o.Bounds.Schedules = 5
		r, err = judge.Judge(t.Context(), o)
		if err != nil {
			return err
		}
		const stopped = "schedules by the limit of 5 schedules" // or a few more, which were under way
		if p := r.Promises[0]; p.State != "unchecked" || !strings.HasSuffix(p.Why, stopped) {
			t.Errorf("too little was searched, and %+v, want %q", p, stopped)
		}
		return nil
	})
}

func TestJudgeFindsWhatIsWrongWithPurchases(t *testing.T) {
	alone(t)
	t.Parallel()
	for _, c := range []struct {
		kind, market string
		want         []verify.Harm
	}{
		{"buy", "one-item", nil}, {"buy late", "one-item", []verify.Harm{verify.SoldTwice}},
		{"buy late", "one-account", []verify.Harm{verify.Overdrawn}},
		{"buy again", "one-item", []verify.Harm{verify.ToldNo}},
	} {
		bounds := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.Lose}}
		o := options(t, c.kind, bounds)
		o.Program = c.market
		finds(t, o, c.want...)
	}
}

// If the clock of a client is ahead, a lock by clocks lets it in.
func TestJudgedClock(t *testing.T) {
	alone(t)
	o := options(t, "", explore.Bounds{Preemptions: 1})
	o.Command = []string{"/usr/bin/python3", "testdata/lock.py", "clock"}
	o.Program = "lock-clock"
	o.Bounds.Kinds = nil
	finds(t, o, verify.TwoHolders)
	o.Program = "lock-clock-behind"
	finds(t, o, verify.TwoHolders)
	o.Program = "lock"
	finds(t, o)
}

// A client that fails in rehearsal, or has lost its lock, is asked again: the machine may have
// stood still.
func TestLostInRehearsal(t *testing.T) {
	t.Parallel()
	retried(t, options(t, "lost at first", explore.Bounds{}), func(o judge.Options) error {
		o.Pairs = 1
		found, err := judge.Replay(t.Context(), o, "x5/any/lock/d1.d1.d1.d1.d1.d1.d2.d2.d2")
		if err == nil && found.Harm != "" {
			err = fmt.Errorf("%+v", found)
		}
		return err
	})
}

// What cannot be judged is told in a sentence.
func TestBadAdapters(t *testing.T) {
	alone(t)
	t.Parallel()
	for kind, says := range map[string]string{
		"ends": "; its last lines are\n\tthis is why", "other words": `said "certainly", not "acquired"`,
		"no lock":  "it has done all that it was told; it has sent nothing to 127.0.0.1:",
		"own lock": "two clients were inside at once",
		"lost":     `said "lost" 5 times, though nobody else takes that lock`,
		"TLS":      "it has asked for TLS, and is given a single server without TLS",
		"CLUSTER":  "it has asked for CLUSTER, and",
		"SENTINEL": "asked for SENTINEL,",
		"READONLY": "asked for READONLY,",
	} {
		o := options(t, kind, explore.Bounds{})
		o.Lease = 500 * time.Millisecond // or it is tried with longer ones, too
		_, err := judge.Run(t.Context(), o)
		if !errors.Is(err, judge.ErrAdapter) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", kind, err, says)
		}
	}

	o := options(t, "compare", explore.Bounds{})
	o.Controls = o.Command // sound, and not the controls
	_, err := judge.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "was played as a control") {
		t.Errorf("controls that do no harm: %v", err)
	}

	o.Command = []string{"/nowhere/lock"}
	_, err = judge.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "/nowhere/lock") {
		t.Errorf("a program that is not there: %v", err)
	}

	o.Server = backend.Local{Program: "/nowhere/redis"}
	if _, err := judge.Run(t.Context(), o); !errors.Is(err, process.ErrUnavailable) {
		t.Errorf("a server that is not there: %v", err)
	}
}
