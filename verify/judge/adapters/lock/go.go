//go:build ignore

// SET NX PX and a script that compares and deletes, with go-redis, for marketsim judge.
// Build it in a module that requires github.com/redis/go-redis/v9.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var compareAndDelete = redis.NewScript(
	`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)

// A lock is one that this process takes again and again.
type lock struct {
	server       *redis.Client
	lease, retry time.Duration
	key, token   string // of the last acquisition
}

func (l *lock) acquire(ctx context.Context, name string) error {
	l.key = os.Getenv("KEY_PREFIX") + name
	l.token = rand.Text()

	for {
		taken, err := l.server.SetNX(ctx, l.key, l.token, l.lease).Result()
		if taken || err != nil {
			return err
		}
		select {
		case <-time.After(l.retry):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// release frees the lock, unless its lease has ended: then it may be another's.
func (l *lock) release(ctx context.Context) (freed bool, err error) {
	return compareAndDelete.Run(ctx, l.server, []string{l.key}, l.token).Bool()
}

// answer is what the lock says to a line, which ctx cancels.
func (l *lock) answer(ctx context.Context, line string) string {
	said := ""
	var err error
	name, acquires := strings.CutPrefix(line, "acquire ")
	switch {
	case acquires:
		said = "acquired"
		err = l.acquire(ctx, name)
	case line == "release":
		said = "lost"
		var freed bool
		freed, err = l.release(ctx)
		if freed {
			said = "released"
		}
	case line == "now":
		said = fmt.Sprint(time.Now().UnixMilli())
	case line == "can cancel":
		said = "yes"
	default:
		err = fmt.Errorf("this is not understood: %q", line)
	}

	switch {
	case err != nil && ctx.Err() != nil:
		return "cancelled" // what it may have taken ends with its lease
	case err != nil:
		return "error " + err.Error()
	}
	return said
}

// A call is a line, and a context that ends when the call is cancelled.
type call struct {
	context.Context
	line string
}

// read reads calls, in a goroutine of its own: one may be under way when "cancel" comes.
func read(calls chan<- call) {
	defer close(calls)
	cancel := func() {}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "cancel" {
			cancel()
			continue
		}
		c := call{line: lines.Text()}
		c.Context, cancel = context.WithCancel(context.Background())
		calls <- c
	}
}

// milliseconds reads a variable that marketsim has set.
func milliseconds(variable string) time.Duration {
	d, err := time.ParseDuration(os.Getenv(variable) + "ms")
	if err != nil {
		log.Fatalf("%s: %v", variable, err)
	}
	return d
}

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	options.MaxRetries = -1 // SET NX that is sent again finds the client's own lock

	l := lock{
		server: redis.NewClient(options),
		lease:  milliseconds("LOCK_TTL_MS"),
		retry:  milliseconds("LOCK_RETRY_MS"),
	}
	calls := make(chan call)
	go read(calls)
	for c := range calls {
		fmt.Println(l.answer(c, c.line))
	}
}
