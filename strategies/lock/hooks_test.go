package lock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// before is a hook that does something before a pipeline that starts with a command.
type before struct {
	command string
	do      func()
}

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == b.command {
			b.do()
		}
		return next(ctx, cmds)
	}
}

// sees is a hook that sees each command before it is sent.
type sees func(cmd redis.Cmder)

func (s sees) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s sees) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s sees) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s(cmd)
		return next(ctx, cmd)
	}
}

// errNoServer is what a connection meets where there is none.
var errNoServer = errors.New("no server")

// answers is a server in a function, for tests on synctest's clock: a command takes
// exactly as long as it sleeps. True means that the lock is given, or was the caller's.
type answers func(cmd redis.Cmder) bool

// client is a connection to it, which the caller closes.
func (a answers) client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errNoServer
		},
		MaxRetries: -1,
		// Otherwise a client resolves its address when it is made.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rdb.AddHook(a)
	return rdb
}

func (a answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook answers SET and scripts. It stops for no context, as a server does not.
func (a answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		yes := a(cmd)
		switch cmd := cmd.(type) {
		case *redis.StatusCmd:
			if !yes {
				return redis.Nil
			}
			cmd.SetVal("OK")
		case *redis.Cmd:
			n := int64(0)
			if yes {
				n = 1
			}
			cmd.SetVal(n)
		}

		return nil
	}
}

// open makes a Locker whose connection is a, and who can open no other.
func (a answers) open(t testing.TB, k lock.Kind, params param.Values) lock.Locker {
	t.Helper()
	rdb := a.client()
	t.Cleanup(func() {
		_ = rdb.Close()
	})

	l, err := k.New(lock.Env{
		Redis:  rdb,
		Params: params,
		Key: func(name string) string {
			return name
		},
		NewClient: func(context.Context) (*redis.Client, error) {
			return nil, errNoServer
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.(io.Closer).Close()
	})
	return l
}
