package redisconn_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

// The defaults of go-redis that matter to whoever changes shared state. A command whose
// reply is lost is sent up to three times more, so that a script may be executed twice;
// the deadline of a context does not end a wait for a reply; and a client has several
// connections, of which each has its own watched keys.
func Example_defaults() {
	untouched := redis.NewClient(&redis.Options{})
	o := untouched.Options()
	fmt.Println("sent again after a lost reply:", o.MaxRetries, "times")
	fmt.Println("connections a processor:", o.PoolSize/runtime.GOMAXPROCS(0))
	fmt.Println("waits for a reply:", o.ReadTimeout)

	_ = untouched.Close()

	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		log.Fatal(err)
	}
	defer silent.Close()
	const wait = time.Second
	for _, enabled := range []bool{false, true} {
		rdb := redis.NewClient(&redis.Options{
			Addr: silent.Addr().String(), MaxRetries: -1, ReadTimeout: wait, ContextTimeoutEnabled: enabled,
		})
		// Dialling takes less.
		ctx, cancel := context.WithTimeout(context.Background(), wait/2)
		start := time.Now()
		_ = rdb.Get(ctx, "key").Err()
		fmt.Printf("ContextTimeoutEnabled %v: the deadline ended the wait: %v\n", enabled, time.Since(start) < wait)
		cancel()
		_ = rdb.Close()
	}
	// Output:
	// sent again after a lost reply: 3 times
	// connections a processor: 10
	// waits for a reply: 5s
	// ContextTimeoutEnabled false: the deadline ended the wait: false
	// ContextTimeoutEnabled true: the deadline ended the wait: true
}
