// Marketsim shows how concurrent clients should share state in Redis. It loads the game market of Redis in Action
// with sellers and buyers, under optimistic locking, a market-wide lock, per-item locks and no protection at all,
// and accounts for every coin and item afterwards.
//
//	marketsim reproduce                           tables 6-1 to 6-3 of the book, measured here beside the published
//	marketsim run --strategy fine --mix 5x5       one or more strategies under one or more mixes
//	marketsim check DIR                           judge the histories that run --history DIR recorded, without Redis
//	marketsim faults [--scenario S] [--lock L]    what strategies and locks lose on a bad day
//	marketsim list [--locks|--scenarios]          the strategies and their locks; what each lock promises; what faults plays
//	marketsim report DIR|run.json|faults.json     redraw what was stored, without Redis
//	marketsim clean --prefix P                    remove what a killed run left
//	marketsim version
//
// # Where the market runs
//
// With --redis URL (or REDIS_URL) on your server: redis://, rediss:// with --cacert, --cert, --key and --sni, or
// unix://. The password is that of --password-file, else the URL's, else REDIS_PASSWORD. Only keys under the run's
// prefix are touched, and they are removed at the end. Without a URL, marketsim starts a private redis-server or
// valkey-server from PATH, else a container (image MARKETSIM_IMAGE), else an embedded miniredis, whose numbers are not
// Redis's. --backend forces one.
//
// # Strategies
//
// A strategy is written strategy[:lock[+watchdog]][:key=value]..., for example coarse, fine:redlock,
// fine:set-px+watchdog:ttl=500ms or watch:timeout=1s. Locks that need servers besides Redis get private ones, or yours:
// --redlock URL,URL,URL, --zookeeper HOST:PORT,... and --etcd HOST:PORT,...
//
// --browsers N adds workers who look at listings under a lock that can be shared (rw-safe, rw-hash, rw-keys), and counts
// what they saw torn.
//
// # Chaos
//
// run --chaos measures nothing. It starts a private redis-server that writes every change to disk before it answers, and
// for as long as --duration says strikes it, the connections to it and its clients with faults: delays, black holes,
// resets, lost replies, SIGKILL, SIGSTOP, clients held in the middle of a purchase for longer than their lock lives. A
// round holds each kind of fault; after it everything is healed, and the market audited. The faults, their order and their
// lengths follow from --seed, which is drawn and printed if it is not given; --chaos-plan prints them and runs nothing. At
// the end the history of all operations is checked, and kept if something is wrong.
//
// # Exit codes
//
//	0    fine
//	1    the environment failed: no server, a server that died; what was measured is kept
//	2    the usage: an unknown strategy, a bad mix, a file that cannot be written
//	3    the audit or the check of a history found a violation, or a lock broke a promise that it made
//	130  interrupted; a first Ctrl-C finishes the operations in flight and audits, a second leaves at once
//
// Where several hold, 3 goes over 1 and 1 over 130.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/marketsim/marketsim/market/backend"
)

func main() {
	serveClient() // does not return in a client of a scenario
	backend.QuietLogs()
	var door exitDoor
	ctx := stopOnSignal(context.Background(), &door)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	door.close()
	if err != nil {
		fmt.Fprintf(os.Stderr, "marketsim: %v\n", err)
	}
	os.Exit(exitCode(err))
}
