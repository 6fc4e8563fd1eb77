package catalogue

import (
	"slices"
	"strings"

	"github.com/marketsim/marketsim/strategies"
)

// Rights are the ACL rules that are enough for every strategy and every lock which needs
// one server, and for 'marketsim clean'. Parameters may take more: see [Commands]. Keys and
// channels are limited by rules of their own. Reports show +cluster|slots in quotes, which a shell
// needs where it is typed behind redis-cli.
const Rights = "+@hash +@list +@set +@sortedset +@string " +
	"+cluster|slots +del +eval +evalsha +exec +exists +expire +info +multi +pexpire +ping +publish +pttl +rename " +
	"+scan +select +subscribe +time +ttl +type +unlink +unsubscribe +unwatch +wait +watch"

// everyRun are the commands that every run sends: it connects, opens a market, trades in it
// by MULTI or WATCH, audits it and removes it.
const everyRun = "ping; info; select 0; exists KEY; unlink KEY; scan 0; hsetnx KEY f 0; hset KEY f 0; hget KEY f; " +
	"hgetall KEY; hexists KEY f; hincrby KEY f 0; sadd KEY m; srem KEY m; sismember KEY m; sscan KEY 0; zadd KEY 0 m; " +
	"zrem KEY m; zscore KEY m; zscan KEY 0; zrandmember KEY; multi; exec; watch KEY; unwatch"

// ToFind is the command by which 'marketsim clean' finds what a run without a note left.
const ToFind = "type KEY"

const (
	scripts      = "evalsha 0 0; eval return 0"
	ownerDeletes = scripts + "; get KEY; del KEY" // compare_delete.lua
	subscribes   = "publish CHANNEL m; subscribe CHANNEL; unsubscribe CHANNEL"
)

// commands are those that a strategy, a lock, a parameter or a parameter's
// value takes besides, on every way through its scripts, renewals included.
// TestAdviceEndsAfterOneRound of cmd/marketsim runs each under an ACL of no
// more than these. None may be DISCARD, RESET or QUIT, see backend.RefusedByACL.
var commands = map[string]string{
	"watch-item": "incr KEY",
	"lua":        scripts,
	"lua-shared": scripts,

	"exists-set":         "set KEY v; del KEY",
	"setnx-fixed":        "setnx KEY v; del KEY",
	"setnx-expire-naive": "setnx KEY v; expire KEY 1; get KEY; del KEY",
	"set-ex-fixed":       "set KEY v; del KEY",
	"set-ex-compare":     "set KEY v; get KEY; del KEY",
	"getset":             "setnx KEY v; get KEY; getset KEY v; set KEY v; del KEY",
	"setnx":              "setnx KEY v; get KEY; del KEY",
	"setnx-expire":       "setnx KEY v; expire KEY 1; ttl KEY; get KEY; del KEY",
	"set-px":             ownerDeletes + "; set KEY v; pexpire KEY 1",
	"reentrant":          scripts + "; expire KEY 1; pexpire KEY 1; del KEY",
	"reentrant-local":    ownerDeletes + "; set KEY v; pexpire KEY 1",
	"redisson":           ownerDeletes + "; set KEY v; pexpire KEY 1; pttl KEY; " + subscribes,
	"queue": ownerDeletes + "; set KEY v; incr KEY; hdel KEY f; lpop KEY; lrem KEY 0 m; rpush KEY m; " +
		"pexpire KEY 1; pttl KEY; time; " + subscribes,
	"ticket":   scripts + "; get KEY; incr KEY",
	"fenced":   ownerDeletes + "; set KEY v; incr KEY; pexpire KEY 1",
	"rw-naive": scripts + "; set KEY v; del KEY",
	"rw-keys":  ownerDeletes + "; set KEY v; incr KEY; decr KEY",
	"rw-hash":  scripts + "; hdel KEY f; pexpire KEY 1",
	"rw-safe": ownerDeletes + "; set KEY v; rename KEY KEY; pexpire KEY 1; pttl KEY; time; " +
		"zremrangebyscore KEY 0 0",
	"redsync":   ownerDeletes + "; set KEY v; pexpire KEY 1",
	"redislock": scripts + "; del KEY; getrange KEY 0 0; mget KEY; mset KEY v; msetnx KEY v; pexpire KEY 1; pttl KEY",

	"take=script":        scripts,
	"fencing":            scripts + "; get KEY; set KEY v",
	"idempotent":         scripts,
	"write=fused":        "get KEY; del KEY",
	"after-unknown=kill": "client|info; client|kill id 0",
	"replicas":           "wait 0 0",
	"release=watch":      "get KEY; del KEY",
	"release=delex":      "delex KEY ifeq v",
	"release=delifeq":    "delifeq KEY v",
}

// Commands are those that specs send to the market's server, with all that they may need
// in rare cases, and those of every run, sorted: an ACL has to grant them. Each is a
// command as it is tried, with KEY and CHANNEL for names of the run's own.
func Commands(specs ...strategies.Spec) []string {
	texts := []string{everyRun}
	// A name that is not in commands has "", which adds nothing.
	for _, spec := range specs {
		kind, _ := spec.Lock()
		lockName, _, _ := strings.Cut(kind.Name, "+")
		texts = append(texts, commands[spec.Strategy().Name])
		if spec.Strategy().Script != "" {
			texts = append(texts, scripts) // which commands it calls is seen when it is tried
		}
		if kind.Needs == "" { // with servers of its own the lock sends nothing to the market's
			texts = append(texts, commands[lockName])
		}
		for _, p := range spec.Params() {
			value, _ := spec.Value(p.Name)
			if value != p.Default {
				texts = append(texts, commands[p.Name], commands[p.Name+"="+value])
			}
		}
	}

	var all []string
	for _, text := range texts {
		for trial := range strings.SplitSeq(text, ";") {
			if strings.TrimSpace(trial) != "" {
				all = append(all, strings.TrimSpace(trial))
			}
		}
	}

	// Equal names are neighbours now: one trial of each is enough.
	slices.Sort(all)
	return slices.CompactFunc(all, func(a, b string) bool {
		return nameOf(a) == nameOf(b)
	})
}

// nameOf is the command's name, as an ACL spells it: "hget", or "client|kill".
func nameOf(trial string) string {
	name, _, _ := strings.Cut(trial, " ")
	return name
}
