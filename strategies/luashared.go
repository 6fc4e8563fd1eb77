package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// luaShared runs the scripts of lua over one connection for all workers of a process, which go-redis's AutoPipeline
// fills: it sends what came up meanwhile in one go, and does not wait for the replies to what it sent before. With many
// workers that saves both sides most of their system calls. It protects what lua protects.
//
// What breaks it is what breaks lua, and more. An order cannot be recalled: whoever gives up waiting, because its
// context ended, may have it applied later, so that its outcome is unknown. A broken connection leaves the orders of all
// workers unknown at once. One worker alone gains nothing: its orders go from goroutine to goroutine on their way. All
// must be the same user of the same server, and a reply that is long in coming keeps everybody's waiting. What it
// exchanges with the server is not known for each purchase (see package backend).
//
// Source: go-redis, AutoPipelineOptions.FullDuplex (9.23, experimental); redis.io/docs/latest/develop/using-commands/
// pipelining, on what system calls cost.
func luaShared() Strategy {
	return Strategy{
		Name:     "lua-shared",
		Summary:  "the same scripts, of all workers over one connection: a full-duplex pipeline",
		Source:   "go-redis, AutoPipeline",
		Protects: Protection{Items: true, Accounts: true},
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			shared, closer, err := openPipeline(env)
			if err != nil {
				return nil, nil, err
			}
			return &pipelining{shared: shared, scripter: scripter{keys: env.Keys, steps: env.Steps}}, closer, nil
		},
	}
}

// pipelining is one worker's Purchaser.
type pipelining struct {
	shared   *pipeline
	scripter scripter // its rdb is nil until the first operation
}

// List implements market.Purchaser.
func (p *pipelining) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	if err := p.open(ctx); err != nil {
		return market.Receipt{}, err
	}
	return p.scripter.List(ctx, l)
}

// Purchase implements market.Purchaser.
func (p *pipelining) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	if err := p.open(ctx); err != nil {
		return market.Receipt{}, err
	}
	return p.scripter.Purchase(ctx, o)
}

func (p *pipelining) open(ctx context.Context) (err error) {
	if p.scripter.rdb == nil {
		p.scripter.rdb, err = p.shared.open(ctx)
	}
	return beforeWrite(err)
}

// pipeline is the connection that the workers of a process share. The first operation of any of them opens it.
type pipeline struct {
	dial    func(context.Context) (*redis.Client, error)
	opening gate
	rdb     *redis.Client
	pipe    pipe // of rdb
}

// openPipeline returns the pipeline of the worker's process. If the worker is alone, it also returns what closes it.
func openPipeline(env Env) (*pipeline, io.Closer, error) {
	if env.Process == nil {
		p := newPipeline(env)
		return p, p, nil
	}
	shared, err := env.Process.Share("pipeline", func() (io.Closer, error) { return newPipeline(env), nil })
	if err != nil {
		return nil, nil, err
	}
	return shared.(*pipeline), nil, nil
}

func newPipeline(env Env) *pipeline { return &pipeline{dial: env.Dial, opening: make(gate, 1)} }

// open connects, if nobody has so far.
func (p *pipeline) open(ctx context.Context) (redis.Scripter, error) {
	if err := p.opening.enter(ctx, func() {}); err != nil {
		return nil, err
	}
	defer p.opening.leave()
	if p.rdb != nil {
		return p.pipe, nil
	}
	rdb, err := p.dial(backend.Pipelining(ctx))
	if err != nil {
		return nil, fmt.Errorf("open the connection that workers share: %w", err)
	}
	sender, err := backend.FullDuplex(rdb)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the pipeline that workers share: %w", err), rdb.Close())
	}
	p.rdb, p.pipe = rdb, pipe{sender}
	return p.pipe, nil
}

// Close implements io.Closer. What was handed over is sent and answered before it returns.
func (p *pipeline) Close() error {
	if p.rdb == nil {
		return nil
	}
	return errors.Join(p.pipe.Close(), p.rdb.Close())
}

// pipe runs scripts by a pipeline. It waits for them no longer than their context says.
type pipe struct{ *redis.AutoPipeliner }

// Eval implements redis.Scripter.
func (p pipe) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	return p.run(ctx, "eval", text, keys, args)
}

// EvalSha implements redis.Scripter.
func (p pipe) EvalSha(ctx context.Context, hash string, keys []string, args ...any) *redis.Cmd {
	return p.run(ctx, "evalsha", hash, keys, args)
}

func (p pipe) run(ctx context.Context, name, script string, keys []string, args []any) *redis.Cmd {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, name, script, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	cmd.SetFirstKeyPos(3)
	err := p.Submit(ctx, cmd).WaitContext(ctx)
	if err != nil && ctx.Err() != nil { // the pipeline may still be writing into cmd
		cmd = redis.NewCmd(ctx)
		cmd.SetErr(err)
	}
	return cmd
}
