// This program takes locks of other people's libraries, for marketsim judge: its argument says which library.
//
//	go build -o /tmp/library-program . && marketsim judge -- /tmp/library-program rueidislock
//
// It is a module of its own, so that nobody who uses marketsim links these libraries. Each library is opened as its
// documentation tells; where something else is set, the name of the lock says so.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zeromicro/go-zero/core/logx"
)

// A library is a lock that one process takes again and again.
type library interface {
	// acquire waits for the lock, for four leases at most. It returns errTimeout if another still holds it.
	acquire(ctx context.Context, name string) error

	// release frees the lock that was acquired last, and says how that ended: released, lost, or done where the
	// library does not tell.
	release(ctx context.Context) (said string, err error)
}

// Settings are what marketsim asks of a lock.
type settings struct {
	address      string
	prefix       string
	lease, retry time.Duration
}

// libraries open the locks.
var libraries = map[string]func(settings) (library, error){
	"go-zero":                newGoZero,
	"go-zero-without-expiry": newGoZeroWithoutExpiry,
	"redislock":              newRedislock,
	"redsync":                newRedsync,
	"redsync-fail-fast":      newRedsyncFailFast,
	"redsync-extends":        newRedsyncExtends,
	"redsync-setnx-extends":  newRedsyncSetNXExtends,
	"rueidislock":            newRueidislock,
	"rueidislock-set-px":     newRueidislockSetPX,
}

func main() {
	names := slices.Sorted(maps.Keys(libraries))
	if len(os.Args) != 2 || libraries[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: %s LIBRARY, one of %s\n", os.Args[0], strings.Join(names, ", "))
		os.Exit(2)
	}

	logx.SetWriter(logx.NewWriter(os.Stderr)) // go-zero logs by itself, and where answers belong by default

	l, err := libraries[os.Args[1]](settings{
		address: os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT"),
		prefix:  os.Getenv("KEY_PREFIX"),
		lease:   milliseconds("LOCK_TTL_MS"),
		retry:   milliseconds("LOCK_RETRY_MS"),
	})
	if err != nil {
		log.Fatalf("open %s: %v", os.Args[1], err)
	}

	calls := make(chan call)
	go read(calls)
	for c := range calls {
		fmt.Println(answer(c, l))
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

// A call is a line, and a context that ends when the call is cancelled.
type call struct {
	context.Context
	line string
}

// read reads calls, in a goroutine of its own: one may be under way when "cancel" comes.
func read(calls chan<- call) {
	defer close(calls)
	cancel := func() {}
	defer func() { cancel() }()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "cancel" {
			cancel()
			continue
		}
		cancel() // of the call before, which has been answered
		ctx, end := context.WithCancel(context.Background())
		cancel = end
		calls <- call{Context: ctx, line: lines.Text()}
	}
}

// answer is what the lock says to a call, on one line, in the words of internal/program/words.go,
// which this module does not import.
func answer(c call, l library) (said string) {
	var err error
	name, acquires := strings.CutPrefix(c.line, "acquire ")
	switch {
	case acquires:
		said = "acquired"
		err = l.acquire(c, name)
	case c.line == "release":
		said, err = l.release(c)
	case c.line == "now":
		said = fmt.Sprint(time.Now().UnixMilli())
	case c.line == "can cancel":
		said = "yes"
	default:
		err = fmt.Errorf("this is not understood: %q", c.line)
	}

	// A call that has ended well in spite of its cancellation says so: then the lock is held, or free.
	switch {
	case err != nil && c.Err() != nil:
		return "cancelled"
	case err == errTimeout:
		return "timeout"
	case err != nil:
		return "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return said
}
