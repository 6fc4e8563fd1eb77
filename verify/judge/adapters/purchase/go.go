//go:build ignore

// A purchase by one script, with go-redis, for marketsim judge --purchase and run --exec.
// Build it in a module that requires github.com/redis/go-redis/v9.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

var buyScript = redis.NewScript(`
local price = redis.call('zscore', KEYS[1], ARGV[1] .. '.' .. ARGV[3])
local funds = redis.call('hget', KEYS[2], 'funds')
if not price then return 'gone' end
if tonumber(price) ~= tonumber(ARGV[4]) then return 'price' end
if tonumber(funds) < tonumber(price) then return 'funds' end
redis.call('hincrby', KEYS[2], 'funds', -price)
redis.call('hincrby', KEYS[3], 'funds', price)
redis.call('zrem', KEYS[1], ARGV[1] .. '.' .. ARGV[3])
redis.call('sadd', KEYS[4], ARGV[1])
return 'bought'`)

var listScript = redis.NewScript(`
if redis.call('srem', KEYS[1], ARGV[1]) == 0 then return 'error the seller does not have it' end
redis.call('zadd', KEYS[2], ARGV[3], ARGV[1] .. '.' .. ARGV[2])
return 'listed'`)

// key is the name of a key under the prefix that marketsim has set.
func key(name string) string { return os.Getenv("KEY_PREFIX") + name }

// answer makes the order or the offer of a line, and says what became of it.
func answer(ctx context.Context, server *redis.Client, line string) (string, error) {
	word, rest, _ := strings.Cut(line, " ")
	order := strings.Fields(rest)
	switch {
	case word == "buy" && len(order) == 4:
		buyer, seller := order[1], order[2]
		keys := []string{key("market:"), key("users:" + buyer), key("users:" + seller), key("inventory:" + buyer)}
		return buyScript.Run(ctx, server, keys, order).Text()
	case word == "list" && len(order) == 3:
		seller := order[1]
		keys := []string{key("inventory:" + seller), key("market:")}
		return listScript.Run(ctx, server, keys, order).Text()
	}
	return "", fmt.Errorf("this is not understood: %q", line)
}

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	options.MaxRetries = -1 // the script may have run: it must not be sent again

	server := redis.NewClient(options)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		said, err := answer(context.Background(), server, lines.Text())
		if err != nil {
			said = "error " + strings.ReplaceAll(err.Error(), "\n", "; ") // an answer is one line
		}
		fmt.Println(said)
	}
}
