package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// own makes the client of a lock that is taken and released by two functions,
// which report nothing.
func own(
	take, free func(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error) Open {

	return ownIn(0, take, free)
}

// ownIn is own in a database.
func ownIn(
	database int,
	take, free func(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error) Open {

	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, DB: database})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			unlock := func(ctx context.Context) error {
				return free(ctx, rdb, name, token, w)
			}
			return unlock, take(ctx, rdb, name, token, w)
		}, rdb, nil
	}
}

var errHeld = errors.New("held")

func setPX(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error {
	return orHeld(rdb.SetNX(ctx, name, token, w.TTL).Result())
}

func setPXThenGet(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error {
	if err := setPX(ctx, rdb, name, token, w); err != nil {
		return err
	}
	return rdb.Get(ctx, name).Err()
}

func setNX(ctx context.Context, rdb *redis.Client, name, token string, _ Worker) error {
	return orHeld(rdb.SetNX(ctx, name, token, 0).Result())
}

func existsThenSet(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error {
	if held, err := rdb.Exists(ctx, name).Result(); held != 0 || err != nil {
		return orHeld(false, err)
	}
	return rdb.Set(ctx, name, token, w.TTL).Err()
}

func del(ctx context.Context, rdb *redis.Client, name, _ string, _ Worker) error {
	return rdb.Del(ctx, name).Err()
}

func getThenDel(ctx context.Context, rdb *redis.Client, name, token string, _ Worker) error {
	if rdb.Get(ctx, name).Val() != token {
		return nil
	}
	return rdb.Del(ctx, name).Err()
}

func orHeld(taken bool, err error) error {
	if err == nil && !taken {
		return errHeld
	}
	return err
}

func compareAndDelete(ctx context.Context, rdb *redis.Client, name, token string, _ Worker) error {
	const script = `if redis.call("get", KEYS[1]) == ARGV[1] then redis.call("del", KEYS[1]) end return 1`
	return rdb.Eval(ctx, script,
		[]string{name}, token).Err()
}

// Locks of other modules report no step. What is wrong with them is found at
// their connections, and named.
func TestFlawsAreFoundAtTheConnection(t *testing.T) {
	t.Parallel()
	server := testkit.Local(t)
	for _, c := range []struct {
		name   string
		open   Open
		broken string // the promise
		says   string
	}{
		{"compare and delete in a script", own(setPX, compareAndDelete), "", ""},
		{"GET, then DEL", own(setPX, getThenDel), "owner-only release",
			"between its request 1 (GET) and its request 2 (DEL)"},
		{"DEL", own(setPX, del), "owner-only release", "before its request 1 (DEL)"},
		{"EXISTS, then SET", own(existsThenSet, compareAndDelete), "exclusive",
			"between its request 1 (EXISTS) and its request 2 (SET)"},
		{"no expiry", own(setNX, compareAndDelete), "survives a crash", "is not free after"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			factory := c.open.factory(func(string) redisconn.Target {
				return server.Target
			})
			factory.Patience = 5 * time.Second

			report, messages := reported(t, (&adapter{}).Promises(), factory)
			for _, p := range report {
				if p.State == Broken != (p.Promise == c.broken) {
					t.Errorf("%s: %s: %s", p.Promise, p.State, p.Why)
				}
			}
			if !strings.Contains(messages, c.says) {
				t.Errorf("it says nothing of %q:\n%s", c.says, messages)
			}
		})
	}
}

// renewEvery renews a lock four times a lease, until ctx ends.
func renewEvery(ctx context.Context, rdb *redis.Client, w Worker, name, token string) {
	tick := time.NewTicker(w.TTL / 4)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			_ = renewed.Run(ctx, rdb, []string{name}, token, w.TTL.Milliseconds()).Err()
		}
	}
}

// selfRenewing is a lock whose lease is renewed until it is released: while its holder
// lives, it does not run out. Its keys are the names of locks after a prefix of its own.
// They are in a database.
func selfRenewing(
	database int,
	free func(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error) Open {

	return func(life context.Context, w Worker) (Lock, io.Closer, error) {

		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, DB: database})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			name = "mine:" + name
			token := rand.Text()
			if err := setPX(ctx, rdb, name, token, w); err != nil {
				return nil, err
			}

			held, release := context.WithCancel(life)
			go renewEvery(held, rdb, w, name, token)

			return func(ctx context.Context) error {
				release()
				return free(ctx, rdb, name, token, w)
			}, nil
		}, rdb, nil
	}
}

// The release of a lock that is renewed, and so never runs out, is checked all the same.
func TestRenewedLocksAreChecked(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	for _, c := range []struct {
		name  string
		open  Open
		state string // of the promise "owner-only release"
	}{
		{"compare and delete in a script", selfRenewing(0, compareAndDelete), Kept},
		{"GET, then DEL", selfRenewing(0, getThenDel), Broken},
		{"compare and delete in another database", selfRenewing(1, compareAndDelete), Kept},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &served{t: t}
			factory := c.open.factory(s.at)
			factory.TTL, factory.Renewing, factory.Lose = 200*time.Millisecond, true, s.lose

			report, messages := reported(t, (&adapter{}).Promises(), factory)
			if got := report[1]; got.Promise != "owner-only release" || got.State != c.state {
				t.Errorf("%s: %s: %s\n%s", got.Promise, got.State, got.Why, messages)
			}
		})
	}
}

// TestRequire: what stayed unchecked fails a test that requires it, and says why.
func TestRequire(t *testing.T) {
	r := Report{
		{Promise: "exclusive", State: Kept},
		{Promise: "owner-only release", State: Unchecked, Why: "no key has its name"},
		{Promise: "survives a crash", State: NotRun, Why: "left lease expires"},
		{Promise: "fair", State: NotMade},
	}

	for _, c := range []struct {
		promises []string
		says     string
	}{
		{nil, "owner-only release: unchecked: no key has its name"},
		{[]string{"exclusive", "survives a crash"}, ""},
		{[]string{"fair"}, "fair: not made"},
		{[]string{"exclusiv"}, `there is no promise "exclusiv"; the promises are:`},
	} {
		told := testkit.Try(t, func(t testing.TB) {
			r.Require(t, c.promises...)
		})
		messages, _, _ := strings.Cut(told, "\n")
		if messages != c.says {
			t.Errorf("requiring %q says %q, want %q", c.promises, messages, c.says)
		}
	}
}

// Each example is a whole test of a module of its own, which needs nothing that
// only this module has: a lock is checked, a purchase is checked, and a load is measured.
// That module is made with MARKETSIM_EXPLORE only.
func TestTheExamplesRunInAModuleOfTheirOwn(t *testing.T) {
	t.Parallel()
	const path = "github.com/marketsim/marketsim"
	root := testkit.Must(filepath.Abs("../.."))(t)
	dir := t.TempDir()

	read := func(name string) string {
		text := testkit.Must(os.ReadFile(filepath.Join(root, name)))(t)
		return string(text)
	}
	copied := func(from, to string, replaced ...string) {
		text, name := strings.NewReplacer(replaced...).Replace(read(from)), filepath.Join(dir, to)
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	readme, example := read("README.md"), read("verify/locktest/example_test.go")
	begins := strings.Index(example, "func openRedislock(")
	ends := strings.Index(example, "func TestRedislockUnderLoad(")
	for line := range strings.Lines(example[begins:ends]) {
		if !strings.Contains(readme, strings.TrimSpace(line)) {
			t.Errorf("README.md has not the example's line %q", line)
		}
	}
	if os.Getenv("MARKETSIM_EXPLORE") == "" {
		t.Skip("builds the module twice: run with MARKETSIM_EXPLORE=two")
	}

	copied("go.sum", "go.sum")
	copied("go.mod", "go.mod", "module "+path,
		"module example.com/mine\n\nrequire "+path+" v0.0.0\n\nreplace "+path+" => "+root)
	copied("verify/markettest/example_test.go", "purchase/mine_test.go")
	copied("bench/example_test.go", "measurement/mine_test.go")
	passes := func(folder string) string {
		return "ok  \texample.com/mine/" + folder
	}
	for _, c := range []struct {
		takes string
		says  []string
		fails bool
	}{
		{
			takes: "Obtain(ctx, name,",
			says:  []string{passes("purchase"), passes("measurement"), passes("lock")},
		},
		{ // which lets everybody in
			takes: "Obtain(ctx, name+time.Now().String(),", fails: true,
			says: []string{passes("purchase"), passes("measurement"), "someone else could take the lock"},
		},
	} {
		copied("verify/locktest/example_test.go", "lock/mine_test.go", "Obtain(ctx, name,", c.takes)
		const checks = "Test.*/(parallel|purchase_moves)/try_takes"
		cmd := exec.CommandContext(t.Context(), "go", "test", "-run", checks, "./...")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(),
			"GOPROXY=off", "GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if (err != nil) != c.fails {
			t.Errorf("with %s it ends with %v\n%s", c.takes, err, out)
		}
		for _, says := range c.says {
			if !strings.Contains(string(out), says) {
				t.Errorf("with %s it should say %q:\n%s", c.takes, says, out)
			}
		}
	}
}
