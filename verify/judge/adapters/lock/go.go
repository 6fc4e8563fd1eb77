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

var release = redis.NewScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`)

// A call is a line, and a context that ends when it is cancelled.
type call struct {
	context.Context
	line string
}

// read reads calls. It cancels the last one when it is told to.
func read(calls chan<- call) {
	cancel := func() {}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "cancel" {
			cancel()
			continue
		}
		var c call
		c.Context, cancel = context.WithCancel(context.Background())
		c.line = lines.Text()
		calls <- c
	}
	close(calls)
}

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	options.MaxRetries = -1 // SET NX that is sent again finds the client's own lock
	server := redis.NewClient(options)
	ttl, _ := time.ParseDuration(os.Getenv("LOCK_TTL_MS") + "ms")
	retry, _ := time.ParseDuration(os.Getenv("LOCK_RETRY_MS") + "ms")
	name, token := "", ""
	calls := make(chan call)
	go read(calls)
	for c := range calls {
		said := "acquired"
		err = nil
		if key, acquire := strings.CutPrefix(c.line, "acquire "); acquire {
			name, token = os.Getenv("KEY_PREFIX")+key, rand.Text()
			taken := false
			for taken, err = server.SetNX(c, name, token, ttl).Result(); !taken && err == nil; {
				select {
				case <-time.After(retry):
					taken, err = server.SetNX(c, name, token, ttl).Result()
				case <-c.Done():
					err = c.Err()
				}
			}
		} else if c.line == "can cancel" {
			said = "yes"
		} else {
			freed := 0
			freed, err = release.Run(c, server, []string{name}, token).Int()
			said = []string{"lost", "released"}[freed]
		}
		switch {
		case err != nil && c.Err() != nil:
			said = "cancelled"
		case err != nil:
			said = "error " + err.Error()
		}
		fmt.Println(said)
	}
}
