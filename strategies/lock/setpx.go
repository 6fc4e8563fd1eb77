package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/strategies/param"
)

// setPX is the lock of the SET command's page: SET NX with a random token and an expiry,
// released by a script that deletes the key only if it still holds the token. The expiry
// is relative (px, ex) or a time by the client's clock (pxat, exat). With get=on (Redis
// 7.0) SET NX answers what the key holds, so that a client whose library sent it twice
// finds its own token. release=watch is the transaction by which the book releases setnx.
// Newer servers compare without a script: see releaseParam and ifEqParam. In a failure
// all do the same. DELEX is tested on miniredis alone.
//
// What breaks it: a holder that is paused for longer than the expiry writes although
// someone else holds the lock by then, and notices only at its release. +watchdog renews
// it while its holder works; against a paused holder only a fencing token helps
// (scenario pause). With pxat and exat, a client whose clock is wrong takes it for too
// long or hardly at all (clock-behind). Without get=on a client whose library sends the
// command again after a lost reply takes its own token for another's (resent-acquire).
// The published code keeps a lock whose reply was lost (lost-acquire with
// lost-reply=kept). Its master may die before a replica has it (failover). Source:
// redis.io/commands/set, "Patterns".
func setPX() Kind {
	return polling(Kind{
		Name: "set-px", Renews: true,
		Summary: "SET NX with a random token and an expiry; released by a compare-and-delete script",
		Source:  "redis.io/commands/set",

		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
		},
		PromisesWith: func(v param.Values, p *Promises) {
			p.ClockIndependent = !strings.HasSuffix(v.Text(expiryParam), "at") // pxat, exat
		},
		Params: []param.Param{
			TTLParam, expiryParam, getParam, releaseParam, ifEqParam,
			locking.LostReplyReleasedParam, PollParam, TimeoutParam,
		},
		Check: func(v param.Values) error {
			ttl := v.Duration(TTLParam)
			expiry := v.Text(expiryParam)
			if (expiry == "ex" || expiry == "exat") && !wholeSeconds(ttl) {
				return fmt.Errorf("expiry=%s counts whole seconds, and ttl is %s", expiry, ttl)
			}
			return nil
		},
		Commands: []Command{setIfEq, delEx, delIfEq},
		Variants: []string{
			":expiry=pxat", // the end of the lease by the client's clock
			":get=on",      // knows its own token
			"+watchdog",    // renewed as long as its process lives
			":lost-reply=" + locking.LostReplyKept,
		},
	}, func(h *hold) acquisition { return setPXLock{compared{h}} })
}

type setPXLock struct{ compared }

func (l setPXLock) undo(ctx context.Context) error { return l.release(ctx) }

func (l setPXLock) release(ctx context.Context) error {
	switch l.env.Params.Text(releaseParam) {
	case byWatch:
		return l.deleteWatched(ctx)
	case byDelEx:
		return l.releases(l.rdb.Do(ctx, "delex", l.key, "ifeq", l.token).Int64())
	case byDelIfEq:
		return l.releases(l.rdb.Do(ctx, "delifeq", l.key, l.token).Int64())
	}
	return l.compared.release(ctx)
}

func (l setPXLock) renew(ctx context.Context) error {
	if l.env.Params.Text(ifEqParam) == byIfEq {
		return l.renewBySet(ctx, "ifeq", l.token)
	}
	return l.compared.renew(ctx)
}

const (
	byScript  = "script"
	byWatch   = "watch"
	byDelEx   = "delex"
	byDelIfEq = "delifeq"
	byIfEq    = "ifeq"
)

var (
	expiryParam = param.OneOf("expiry",
		"how the expiry is given: relative in ms or s, or as a time of the client's clock", "px", "ex", "pxat", "exat")
	getParam = param.OneOf("get",
		"ask for the value that SET NX finds, to know its own token: needs Redis 7.0", "off", "on")
	releaseParam = param.OneOf("release",
		"what compares the token and deletes: a script, WATCH and MULTI, DELEX (Redis 8.4) or DELIFEQ (Valkey 9.0)",
		byScript, byWatch, byDelEx, byDelIfEq)
	ifEqParam = param.OneOf("renew-by",
		"what renews it, if it is renewed: a script that compares the token, or SET IFEQ (Redis 8.4, Valkey 8.1)",
		byScript, byIfEq)
)

var compareExpire = script("compare_expire")

// compared is how a lock whose key holds its token is released and renewed: by scripts
// that compare it.
type compared struct{ *hold }

func (c compared) undo(ctx context.Context) error { return c.release(ctx) }

func (c compared) release(ctx context.Context) error {
	return c.releaseBy(ctx, locking.CompareDelete, []string{c.key}, c.token)
}

func (c compared) renew(ctx context.Context) error {
	return c.renewBy(ctx, compareExpire, []string{c.key}, c.token, c.ttl().Milliseconds())
}

// take sends SET NX with the parameters of set-px, and reports whether the lock is held.
func (l setPXLock) take(ctx context.Context) (bool, error) {
	withGet := l.env.Params.Text(getParam) == "on"
	args := []any{"set", l.key, l.token, "nx"}
	if withGet {
		args = append(args, "get")
	}
	expiry := l.env.Params.Text(expiryParam)
	cmd := redis.NewStatusCmd(ctx, append(args, expiry, l.when(expiry))...)
	err := l.rdb.Process(ctx, cmd)
	if !withGet {
		return wasSet(err)
	}

	switch {
	case errors.Is(err, redis.Nil): // with GET that is what was there before: nothing, and it is set
		return true, nil
	case redis.HasErrorPrefix(err, "syntax"):
		return false, fmt.Errorf(
			"get=on needs Redis 7.0 or newer, whose SET takes NX and GET together: %w", err)
	}
	// What was there before is its own token if the command was sent twice.
	return err == nil && cmd.Val() == l.token, err
}

// when is the TTL as an argument after expiry, in the unit of that word. It reads Now for pxat
// and exat alone: scenarios of wrong clocks apply only to a client that reads its clock, and
// searches set no other one wrong.
func (h *hold) when(expiry string) int64 {
	switch ttl := h.ttl(); expiry {
	case "ex":
		return int64(ttl / time.Second)
	case "pxat":
		return h.env.Now().Add(ttl).UnixMilli()
	case "exat":
		return h.env.Now().Add(ttl + time.Second - 1).Unix() // rounded up, or the lock would end early
	default: // px
		return ttl.Milliseconds()
	}
}

// renewBySet renews by SET under a condition.
func (h *hold) renewBySet(ctx context.Context, condition ...any) error {
	rdb, err := h.locker.background.connection(ctx)
	if err != nil {
		return err
	}

	args := slices.Concat([]any{"set", h.key, h.token}, condition, []any{"px", h.ttl().Milliseconds()})
	held, err := wasSet(rdb.Process(ctx, redis.NewStatusCmd(ctx, args...)))
	if err == nil && !held {
		return ErrLost
	}
	return err
}

// fenced is set-px with a counter: the script that takes the lock increments a second
// key, which never expires, and the holder gets that number (see Lease.Fence). What the
// lock protects can then refuse a writer with a smaller number.
//
// What breaks it: as long as nobody compares the numbers, what breaks set-px. The numbers
// start again when the counter is lost: a server that comes back without its data, a
// failover to a replica that had not received the last ones. Source: M. Kleppmann, "How
// to do distributed locking", 2016.
func fenced() Kind {
	return polling(Kind{
		Name: "fenced", Renews: true,
		Summary: "set-px, with a counter that gives each holder a larger number",
		Source:  "Kleppmann, How to do distributed locking",
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fenced: true,
		},
		Params: []param.Param{TTLParam, PollParam, TimeoutParam},
		Keys:   func(key string) []string { return []string{key, key + ":fence"} },
	}, func(h *hold) acquisition { return fencedLock{compared{h}} })
}

var fencedTake = script("fenced_take")

type fencedLock struct{ compared }

func (l fencedLock) take(ctx context.Context) (bool, error) {
	number, err := fencedTake.Run(ctx, l.rdb, l.keys, l.token, l.ttl().Milliseconds()).Int64()
	l.lease.Fence = number
	return err == nil && number > 0, err
}

// A Command is one that not every server has on which marketsim runs.
type Command struct {
	Name   string // with the option in question: "SET IFEQ"
	Since  string // the versions that have it: "Redis 8.4, Valkey 8.1"
	word   string // of the command that is sent to try it, which does nothing if there is no such key
	after  []any  // what follows the key then
	of     param.Param
	choice string // the value of the parameter with which it is sent
}

// Check tries the command on a key that does not exist. It returns
// process.ErrUnavailable, wrapped, if the server lacks it. COMMAND INFO does not tell the
// options of SET, and needs a permission of its own.
func (c Command) Check(ctx context.Context, rdb *redis.Client, key string) error {
	err := rdb.Do(ctx, append([]any{c.word, key}, c.after...)...).Err()
	var refused redis.Error
	switch {
	case err == nil || errors.Is(err, redis.Nil):
		return nil
	case errors.As(err, &refused) &&
		(strings.Contains(err.Error(), "unknown command") || strings.Contains(err.Error(), "syntax error")):
		answer, _, _ := strings.Cut(refused.Error(), ", with args")
		return fmt.Errorf("%s is %w on this server, which answers %q: it needs %s", c.Name, process.ErrUnavailable, answer,
			c.Since)
	}
	return fmt.Errorf("try %s: %w", c.Name, redisconn.Explain(err))
}

// Commands that set-px sends, in place of a script, if it is told to.
var (
	setIfEq = Command{
		Name: "SET IFEQ", Since: "Redis 8.4 or Valkey 8.1",
		word: "set", after: []any{"x", "ifeq", "x", "px", 1},
		of: ifEqParam, choice: byIfEq,
	}
	delEx = Command{
		Name: "DELEX", Since: "Redis 8.4",
		word: "delex", after: []any{"ifeq", "x"},
		of: releaseParam, choice: byDelEx,
	}
	delIfEq = Command{
		Name: "DELIFEQ", Since: "Valkey 9.0",
		word: "delifeq", after: []any{"x"},
		of: releaseParam, choice: byDelIfEq,
	}
)
