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

var buy = redis.NewScript(`
local price, funds = redis.call('zscore', KEYS[1], ARGV[1] .. '.' .. ARGV[3]), redis.call('hget', KEYS[2], 'funds')
if not price then return 'gone' end
if tonumber(price) ~= tonumber(ARGV[4]) then return 'price' end
if tonumber(funds) < tonumber(price) then return 'funds' end
redis.call('hincrby', KEYS[2], 'funds', -price)
redis.call('hincrby', KEYS[3], 'funds', price)
redis.call('zrem', KEYS[1], ARGV[1] .. '.' .. ARGV[3])
redis.call('sadd', KEYS[4], ARGV[1])
return 'bought'`)

var offer = redis.NewScript(`
if redis.call('srem', KEYS[1], ARGV[1]) == 0 then return 'error the seller does not have it' end
redis.call('zadd', KEYS[2], ARGV[3], ARGV[1] .. '.' .. ARGV[2])
return 'listed'`)

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	options.MaxRetries = -1 // the script may have run: it must not be sent again
	ctx, server, prefix := context.Background(), redis.NewClient(options), os.Getenv("KEY_PREFIX")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		market, users, inventory := prefix+"market:", prefix+"users:", prefix+"inventory:"
		script, order, keys := offer, words[1:], []string{inventory + words[2], market}
		if words[0] == "buy" {
			buyer, seller := words[2], words[3]
			script, keys = buy, []string{market, users + buyer, users + seller, inventory + buyer}
		}
		said, err := script.Run(ctx, server, keys, order).Text()
		if err != nil {
			said = "error " + err.Error()
		}
		fmt.Println(said)
	}
}
