package lock_test

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/step"
)

// whenever is an observer that does something whenever its worker comes to a step.
func whenever(at step.Name, do func()) step.Observer {
	return func(_ context.Context, now step.Name) {
		if now == at {
			do()
		}
	}
}

// before is a hook that does something before a pipeline that starts with a command.
type before struct {
	command string
	do      func()
}

func (b before) DialHook(next redis.DialHook) redis.DialHook          { return next }
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
