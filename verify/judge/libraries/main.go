// This program takes locks of other people's libraries, for marketsim judge: its argument says which library.
//
//	go build -o /tmp/library-program . && marketsim judge -- /tmp/library-program rueidislock
//
// It is a module of its own, so that nobody who uses marketsim links these libraries. Each library
// is opened as its documentation tells; where something else is set, the name of the lock says so.
// Dapr's lock has a program of its own, in dapr.
package main

import (
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/zeromicro/go-zero/core/logx"

	"github.com/marketsim/marketsim/verify/judge/libraries/adapter"
)

// libraries open the locks.
var libraries = map[string]func(adapter.Settings) (adapter.Lock, error){
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

	l, err := libraries[os.Args[1]](adapter.Environment())
	if err != nil {
		log.Fatalf("open %s: %v", os.Args[1], err)
	}
	adapter.Serve(l)
}
