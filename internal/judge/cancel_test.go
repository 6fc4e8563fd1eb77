package judge_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A cancellable is the lock of a program that hears "cancel". It closes its connections
// then, so that what it has asked fails at once.
type cancellable struct {
	kind string
	ttl  time.Duration

	mu    sync.Mutex
	rdb   *redis.Client
	conns []net.Conn
	ctx   context.Context // of the call that is under way
	end   func()

	name, token string
	endRenewal  func()
}

// compareAndDelete frees a lock that still has the token.
var compareAndDelete = redis.NewScript(
	`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`)

// adaptCancellable is a lock whose kind says what is wrong when a call is cancelled:
//
//   - "cancel stays": its lock expires by a second request, which is then not sent
//   - "cancel renews": its renewal, which begins before its first request, never ends
//   - "cancel forgets": its release forgets the token first, so that the renewal never ends
//   - "cancel": nothing; what it may have taken it gives back, and it can release again, until
//     which it renews
func adaptCancellable(kind string) {
	ms, _ := strconv.Atoi(os.Getenv("LOCK_TTL_MS"))
	l := &cancellable{kind: kind, ttl: time.Duration(ms) * time.Millisecond, endRenewal: func() {}}
	l.rdb = redis.NewClient(&redis.Options{
		Addr:            os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT"),
		MaxRetries:      -1,
		DisableIdentity: true,
		ReadTimeout:     5 * time.Second,
		Dialer:          l.dial,
	})

	calls := make(chan string)
	go func() {
		defer close(calls)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if in.Text() == "cancel" {
				l.cancel()
				continue
			}
			l.begin()
			calls <- in.Text()
		}
	}()

	for line := range calls {
		fmt.Println(l.answer(line))
	}
}

func (l *cancellable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	return conn, err
}

func (l *cancellable) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.end = context.WithCancel(context.Background())
}

func (l *cancellable) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
	for _, conn := range l.conns {
		conn.Close()
	}
	l.conns = nil
}

func (l *cancellable) answer(line string) string {
	said, err := "yes", error(nil)
	name, acquire := strings.CutPrefix(line, "acquire ")
	switch {
	case acquire:
		said = "acquired"
		err = l.acquire(name)
	case line == "release":
		said, err = l.release()
	}

	switch {
	case err != nil && l.ctx.Err() != nil:
		return "cancelled"
	case err != nil:
		return "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return said
}

func (l *cancellable) acquire(name string) error {
	l.name = name
	l.token = rand.Text()
	if l.kind != "cancel stays" {
		l.endRenewal = l.renew()
	}

	ttl := l.ttl
	if l.kind == "cancel stays" {
		ttl = 0
	}

	for {
		taken, err := l.rdb.SetNX(l.ctx, name, l.token, ttl).Result()
		if err == nil && taken && ttl == 0 {
			err = l.rdb.PExpire(l.ctx, name, l.ttl).Err()
		}

		switch {
		case err == nil && taken:
			return nil
		case err == nil && l.ctx.Err() == nil:
			time.Sleep(2 * time.Millisecond)
			continue
		}
		return errors.Join(err, l.ctx.Err(), l.giveBack())
	}
}

// giveBack frees what a call that has failed may have taken.
func (l *cancellable) giveBack() error {
	if l.kind == "cancel stays" || l.kind == "cancel renews" {
		return nil
	}
	l.endRenewal()
	_, err := compareAndDelete.Run(context.Background(), l.rdb, []string{l.name}, l.token).Result()
	return err
}

// renew renews the lock of the token until end is called.
func (l *cancellable) renew() (end func()) {
	ctx, end := context.WithCancel(context.Background())
	name := l.name
	token := l.token
	script := redis.NewScript(
		`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0`)

	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(l.ttl * 3 / 4): // late enough for the steps of a token to come first
				script.Run(ctx, l.rdb, []string{name}, token, l.ttl.Milliseconds())
			}
		}
	}()

	return end
}

func (l *cancellable) release() (string, error) {
	token := l.token
	if l.kind == "cancel forgets" {
		l.token = ""
	}
	n, err := compareAndDelete.Run(l.ctx, l.rdb, []string{l.name}, token).Int64()
	if err != nil {
		return "", err
	}
	if token != "" { // else it does not know which renewal it is
		l.endRenewal()
	}
	return map[bool]string{true: "released", false: "lost"}[n == 1], nil
}

// A call that is cancelled leaves nothing that keeps others out for longer than a lease,
// and a release that was cancelled can be repeated.
func TestJudgeCancels(t *testing.T) {
	alone(t)
	t.Parallel()
	// Without a preemption nobody need ask for the lock while the other one holds it.
	cancels := explore.Bounds{
		Preemptions: 1, Faults: 1, Total: 1, Kinds: []explore.Fault{explore.Cancel},
	}
	finds(t, options(t, "cancel", cancels))

	for _, c := range []struct{ kind, token string }{
		{"cancel stays", "x5/stays/lock/d1.cancel1-1.d1.d2"},
		{"cancel renews", "x5/renews/lock/cancel1.d1.d2"},
		{"cancel forgets", "x5/forgets/lock/d1.d1.cancel1-1.d1.d1.d1.d2"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			retried(t, options(t, c.kind, explore.Bounds{}), func(o judge.Options) error {
				o.Pairs = 1
				found, err := judge.Replay(t.Context(), o, c.token)
				if err == nil && found.Harm != verify.LockedOut {
					err = fmt.Errorf("%v, want %s\n%s", found.Violation, verify.LockedOut, found.Diagram)
				}
				return err
			})
			if os.Getenv("MARKETSIM_JUDGE") == "languages" { // the search takes 15 s each
				finds(t, options(t, c.kind, cancels), verify.LockedOut)
			}
		})
	}
}

// What a program does not hear strikes nobody, and the report says so. A fault that a token
// has is played whatever the other kinds are.
func TestWhoDoesNotHearIsNotCancelled(t *testing.T) {
	t.Parallel()
	o := options(t, "compare", explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Cancel}})
	o.Pairs = 1
	const says = `its answer to "can cancel" is not "yes"`
	_, err := judge.Run(t.Context(), o)
	if !errors.Is(err, judge.ErrAdapter) || !strings.Contains(err.Error(), says) {
		t.Errorf("a program that does not hear, and nothing else to happen: %v", err)
	}

	_, err = judge.Replay(t.Context(), o, "x5/any/lock/cancel1.d1")
	if err == nil || !strings.Contains(err.Error(), "step 1 of the token cannot be chosen") {
		t.Errorf("a token with a fault that the program does not hear: %v", err)
	}
}
