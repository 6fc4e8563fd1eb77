package judge_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/judge"
)

// adapter is the variable that has this program be a lock that is judged, and not a test.
const adapter = "MARKETSIM_TEST_ADAPTER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(adapter); kind != "" {
		adapt(kind)
		return
	}
	testkit.VerifyNoLeaks(m)
}

// adapt is a lock that SET NX PX takes, and which is released as its kind says.
func adapt(kind string) {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{
		Addr: os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT"), MaxRetries: -1,
		DisableIdentity: true, ReadTimeout: 5 * time.Second,
	})
	ms, _ := strconv.Atoi(os.Getenv("LOCK_TTL_MS"))
	name, token := "", ""
	release := func() (int64, error) { return rdb.Del(ctx, name).Result() }
	switch kind {
	case "get-del":
		release = func() (int64, error) {
			if rdb.Get(ctx, name).Val() != token {
				return 0, nil
			}
			return rdb.Del(ctx, name).Result()
		}
	case "compare":
		script := redis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`)
		release = func() (int64, error) { return script.Run(ctx, rdb, []string{name}, token).Int64() }
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		word := strings.Fields(in.Text())
		switch {
		case kind == "ends":
			fmt.Fprintln(os.Stderr, "this is why")
			return
		case kind == "other words":
			fmt.Println("certainly")
		case kind == "no lock":
			fmt.Println(map[bool]string{true: "acquired", false: "released"}[word[0] == "acquire"])
		case word[0] == "acquire":
			name, token = word[1], rand.Text()
			for !rdb.SetNX(ctx, name, token, time.Duration(ms)*time.Millisecond).Val() {
				time.Sleep(2 * time.Millisecond)
			}
			fmt.Println("acquired")
		default:
			n, err := release()
			said := map[bool]string{true: "released", false: "lost"}[n == 1]
			if err != nil {
				said = "error " + err.Error()
			}
			fmt.Println(said)
		}
	}
}

// options judge this program as a lock of a kind.
func options(t *testing.T, kind string, b explore.Bounds) judge.Options {
	t.Helper()
	testkit.Local(t) // or there is nothing to judge it on
	t.Setenv(adapter, kind)
	b.Exhaustive, b.Schedules = true, 10_000
	return judge.Options{Command: []string{os.Args[0]}, Bounds: b, Pairs: 2}
}

// getDel is the schedule in which a release by GET, then DEL, frees another's lock.
const getDel = "x4/getdel/lock/d1.d1.d1.pause1.d2.w1.d1.d1.d1.d1.d1.d2.d2"

func TestReplayOfAToken(t *testing.T) {
	for kind, harm := range map[string]verify.Harm{"get-del": verify.FreedAnothers} {
		found, err := judge.Replay(t.Context(), options(t, kind, explore.Bounds{}), getDel)
		if err != nil || found.Harm != harm {
			t.Errorf("%s: %v, %v; want %s\n%s", kind, found.Violation, err, harm, found.Diagram)
		}
	}
}

// judged are the harms of a lock within bounds. On a machine that stands still nothing may be concluded, which a second
// and a third search have to mend.
func judged(t *testing.T, kind string, b explore.Bounds) (harms []verify.Harm) {
	t.Helper()
	o := options(t, kind, b)
	r, err := judge.Run(t.Context(), o)
	for again := 0; err != nil && again < 2; again++ {
		t.Logf("%s: %v", kind, err)
		r, err = judge.Run(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Found {
		harms = append(harms, f.Harm)
		t.Logf("%s: %s", kind, f.Violation)
	}
	slices.Sort(harms)
	return harms
}

// One fault finds what is wrong with a release by GET, then DEL, and finds nothing but a lease that was outlived of one
// that compares and deletes in a script.
func TestOneFault(t *testing.T) {
	bounds := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Pause}}
	outlived := []verify.Harm{verify.Outlived}
	for kind, want := range map[string][]verify.Harm{
		"compare": outlived,
		"get-del": {verify.FreedAnothers, verify.Outlived},
		"fixed":   {verify.FreedAnothers, verify.Outlived},
	} {
		if harms := judged(t, kind, bounds); !slices.Equal(harms, want) {
			t.Errorf("%s: %q, want %q", kind, harms, want)
		}
	}
}

func TestBadAdapters(t *testing.T) {
	for kind, says := range map[string]string{
		"ends": "has ended; its last lines are\n\tthis is why", "other words": `said "certainly", not "acquired"`,
		"no lock": "two clients were inside at once",
	} {
		o := options(t, kind, explore.Bounds{})
		_, err := judge.Run(t.Context(), o)
		if !errors.Is(err, judge.ErrAdapter) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", kind, err, says)
		}
	}
	o := options(t, "compare", explore.Bounds{})
	o.Command = []string{"/nowhere/lock"}
	if _, err := judge.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "/nowhere/lock") {
		t.Errorf("a program that is not there: %v", err)
	}
	o.Server = backend.Local{Program: "/nowhere/redis"}
	if _, err := judge.Run(t.Context(), o); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a server that is not there: %v", err)
	}
}
