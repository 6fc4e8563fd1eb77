package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// setPX is the lock of the SET command's page: SET NX with a random token and an expiry, released by a script that
// deletes the key only if it still holds the token (compare-and-delete). The expiry is relative (px, ex) or a time by
// the client's clock (pxat, exat). With get=on (Redis 7.0) SET NX answers what the key holds: a client whose library
// sent the command twice finds its own token, and holds the lock. With wait=N it is held only once N replicas have it
// too; if fewer have it in time it is given back, and tried again. It promises that only its holder releases it and that
// a crashed holder does not hold it for good.
//
// Newer servers compare without a script: release=delex (Redis 8.4) and release=delifeq (Valkey 9.0) are one command
// each, and so is a renewal with renew-by=ifeq (Redis 8.4, Valkey 8.1). With take=msetex (Redis 8.4, Valkey 9.1) one
// command takes both locks of fine-wallet. A server that lacks the command is refused before a run. release=watch is the
// transaction by which the book releases setnx. What happens in a failure is the same with each. DELEX is tested on
// miniredis alone.
//
// What breaks it: a holder that is paused for longer than the expiry wakes up and writes although someone else holds
// the lock by then, and does not notice until it releases. +watchdog renews it while its holder works; against a paused
// holder only a fencing token helps (scenario pause). With pxat and exat, a client whose clock is wrong takes it for
// too long or hardly at all (clock-behind). Without get=on a client whose library sends the command again after a lost
// reply takes its own token for another's (resent-acquire). Its master may die before a replica has it (failover). wait=N
// narrows that window and does not close it: another replica than those N may be promoted (failover-wait), unless N is
// all of them, and then one that is down keeps everybody out. Nor does anybody wait for renewals to be replicated.
//
// Of the other options of SET, XX is for a renewal that does not compare (see reentrantLocal), and KEEPTTL for a value
// that changes while the lock is held, which that of no lock here does.
//
// Source: redis.io/commands/set, "Patterns"; for wait, redis.io/commands/wait.
func setPX() Kind {
	promises := func(v param.Values) Promises {
		expiry := v.Text(expiryParam)
		return Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true,
			ClockIndependent: expiry != "pxat" && expiry != "exat",
		}
	}
	k := polling(Kind{
		Name:     "set-px",
		Summary:  "SET NX with a random token and an expiry; released by a compare-and-delete script",
		Source:   "redis.io/commands/set",
		Promises: promises(nil), PromisesWith: promises,
		Params: []param.Param{
			TTLParam, expiryParam, takeParam, getParam, releaseParam, ifEqParam, waitParam, waitTimeoutParam, PollParam,
			TimeoutParam,
		},
		Check:    checkSetPX,
		Renews:   true,
		Commands: setPXCommands,
		Variants: []string{
			":expiry=pxat", // the end of the lease by the client's clock
			":get=on",      // knows its own token
			":wait=1",      // a replica has it too
			"+watchdog",    // renewed as long as its process lives
		},
	}, func(l redisLease) grant {
		v := l.env.Params
		return &setPXLease{
			redisLease: l, expiry: v.Text(expiryParam), get: v.Text(getParam) == "on", replicas: v.Count(waitParam),
			release: v.Text(releaseParam), renewBy: v.Text(ifEqParam), together: v.Text(takeParam) == byMSetEx,
		}
	})
	open := k.New
	k.New = func(env Env) (Locker, error) {
		l, err := open(env)
		if err == nil && env.Params.Text(takeParam) == byMSetEx {
			return together{l.(*polled)}, nil
		}
		return l, err
	}
	return k
}

var expiryParam = param.Choice("expiry",
	"how the expiry is given: relative in ms or s, or as a time of the client's clock", "px", "ex", "pxat", "exat")

var getParam = param.Choice("get",
	"ask for the value that SET NX finds, to know one's own token: needs Redis 7.0", "off", "on")

// Words of releaseParam and ifEqParam.
const (
	byScript  = "script"
	byWatch   = "watch"
	byDelEx   = "delex"
	byDelIfEq = "delifeq"
	byIfEq    = "ifeq"
)

var (
	releaseParam = param.Choice("release",
		"what compares the token and deletes: a script, WATCH and MULTI, DELEX (Redis 8.4) or DELIFEQ (Valkey 9.0)",
		byScript, byWatch, byDelEx, byDelIfEq)
	ifEqParam = param.Choice("renew-by",
		"what renews it, if it is renewed: a script that compares the token, or SET IFEQ (Redis 8.4, Valkey 8.1)",
		byScript, byIfEq)
)

// setPXCommands are the commands that replace a script.
func setPXCommands(v param.Values) (commands []Command) {
	switch v.Text(releaseParam) {
	case byDelEx:
		commands = append(commands, delEx)
	case byDelIfEq:
		commands = append(commands, delIfEq)
	}
	if v.Text(ifEqParam) == byIfEq {
		commands = append(commands, setIfEq)
	}
	if v.Text(takeParam) == byMSetEx {
		commands = append(commands, mSetEx)
	}
	return commands
}

// checkSetPX refuses an expiry in seconds that is not whole seconds, and what checkWait and checkTogether refuse.
func checkSetPX(v param.Values) error {
	ttl, expiry := v.Duration(TTLParam), v.Text(expiryParam)
	if (expiry == "ex" || expiry == "exat") && !wholeSeconds(ttl) {
		return fmt.Errorf("expiry=%s counts whole seconds, and ttl is %s", expiry, ttl)
	}
	return errors.Join(checkWait(v), checkTogether(v))
}

//go:embed compare_delete.lua
var compareDeleteText string

//go:embed compare_expire.lua
var compareExpireText string

var (
	compareDelete = redis.NewScript(compareDeleteText)
	compareExpire = redis.NewScript(compareExpireText)
)

type setPXLease struct {
	redisLease
	expiry   string
	get      bool   // SET answers what the key held
	replicas int    // that must have it
	release  string // what deletes the key; empty: a script
	renewBy  string // what renews it; empty: a script
	together bool   // it is taken by MSETEX
}

// take implements grant.
func (l *setPXLease) take(ctx context.Context) (bool, error) {
	switch {
	case l.together:
		return takeTogether(ctx, l)
	case l.replicas > 0:
		return l.takeReplicated(ctx)
	}
	taken, err := l.ask(ctx, l.rdb)
	if err != nil {
		return false, Abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// ask sends SET, and says whether the lock is taken.
func (l *setPXLease) ask(ctx context.Context, conn interface {
	Process(context.Context, redis.Cmder) error
}) (bool, error) {
	cmd := l.set(ctx)
	err := conn.Process(ctx, cmd)
	var refused redis.Error
	switch none := errors.Is(err, redis.Nil); {
	case l.get && none:
		return true, nil
	case l.get && errors.As(err, &refused) && strings.Contains(err.Error(), "syntax"):
		return false, fmt.Errorf("get=on needs Redis 7.0 or newer, whose SET takes NX and GET together: %w", err)
	case none:
		return false, nil
	case err != nil:
		return false, err
	case l.get:
		return cmd.Val() == l.token, nil // it was sent twice
	}
	return true, nil
}

func (l *setPXLease) set(ctx context.Context) *redis.StatusCmd {
	if l.get {
		return redis.NewStatusCmd(ctx, "set", l.key, l.token, "nx", "get", l.expiry, l.when())
	}
	return redis.NewStatusCmd(ctx, "set", l.key, l.token, "nx", l.expiry, l.when())
}

// overwrite is a renewal that does not ask whose the lock is, if only somebody holds it.
func (l *setPXLease) overwrite(ctx context.Context) error { return l.setAgain(ctx, "xx") }

// setAgain is a renewal by SET under a condition.
func (l *setPXLease) setAgain(ctx context.Context, condition ...any) error {
	rdb, err := l.background.Connection(ctx)
	if err != nil {
		return err
	}
	args := slices.Concat([]any{"set", l.key, l.token}, condition, []any{"px", l.ttl().Milliseconds()})
	err = rdb.Process(ctx, redis.NewStatusCmd(ctx, args...))
	if errors.Is(err, redis.Nil) {
		return ErrLost
	}
	return err
}

// Release implements Lease.
func (l *setPXLease) Release(ctx context.Context) error {
	var native *redis.IntCmd
	switch l.release {
	case byWatch:
		return (&setNXLease{l.redisLease}).Release(ctx)
	case byDelEx:
		native = redis.NewIntCmd(ctx, "delex", l.key, "ifeq", l.token)
	case byDelIfEq:
		native = redis.NewIntCmd(ctx, "delifeq", l.key, l.token)
	}
	if native != nil {
		err := l.rdb.Process(ctx, native)
		return l.releases(native.Val(), err)
	}
	return l.releases(compareDelete.Run(ctx, l.rdb, []string{l.key}, l.token).Int64())
}

// CompareAndDelete deletes the key of a lock of the kind set-px if it still holds the token, and returns ErrLost, wrapped,
// if it does not.
func CompareAndDelete(ctx context.Context, rdb redis.Scripter, key, token string) error {
	l := redisLease{key: key}
	return l.releases(compareDelete.Run(ctx, rdb, []string{key}, token).Int64())
}

// Renew implements Renewer.
func (l *setPXLease) Renew(ctx context.Context) error {
	if l.renewBy == byIfEq {
		return l.setAgain(ctx, "ifeq", l.token)
	}
	return l.background.renew(ctx, compareExpire, []string{l.key}, l.token, l.ttl().Milliseconds())
}
