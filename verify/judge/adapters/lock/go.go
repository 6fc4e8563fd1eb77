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

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	options.MaxRetries = -1 // SET NX that is sent again finds the client's own lock
	ctx, server := context.Background(), redis.NewClient(options)
	ttl, _ := time.ParseDuration(os.Getenv("LOCK_TTL_MS") + "ms")
	retry, _ := time.ParseDuration(os.Getenv("LOCK_RETRY_MS") + "ms")
	name, token := "", ""
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		said := "acquired"
		if key, acquire := strings.CutPrefix(lines.Text(), "acquire "); acquire {
			name, token = os.Getenv("KEY_PREFIX")+key, rand.Text()
			taken := false
			for taken, err = server.SetNX(ctx, name, token, ttl).Result(); !taken && err == nil; {
				time.Sleep(retry)
				taken, err = server.SetNX(ctx, name, token, ttl).Result()
			}
		} else {
			freed := 0
			freed, err = release.Run(ctx, server, []string{name}, token).Int()
			said = []string{"lost", "released"}[freed]
		}
		if err != nil {
			said = "error " + err.Error()
		}
		fmt.Println(said)
	}
}
