package strategies

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// lua makes a listing or a purchase by one script: the server reads, decides
// and writes while it does nothing else. There is nothing to lock, nothing to
// try again, and one round trip.
//
// What breaks it: what a script has written before a command of it fails stays. An access
// list that forbids one of its later commands leaves an item in two places (the rehearsal
// before a run finds such a list). A script that a library sends again after a lost reply
// tells the buyer that the item just bought is gone (scenario resent); idempotent=on
// answers what it did the first time, until the worker's next operation (resent-late).
// All keys must lie in one slot. Source:
// redis.io/docs/latest/develop/programmability/eval-intro, "Atomicity of scripts".
func lua() Strategy {
	return Strategy{
		Name:     "lua",
		Summary:  "one script an operation: the server reads, decides and writes in one go",
		Source:   "redis.io, scripting with Lua",
		Protects: Protection{Items: true, Accounts: true},
		Params:   []param.Param{idempotentParam, replicasParam},
		Variants: func(Catalogue) []string { return []string{"lua:idempotent=on"} },
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			return purchaser{env.Keys, withReplicas(env, newScripter(env))}, nil, nil
		},
	}
}

//go:embed *.lua
var scripts embed.FS

var (
	listWhole     = newWriting("", luaText("lua_list", "list_write"))
	purchaseWhole = newWriting("", luaText("lua_purchase", "purchase_write"))
)

func luaText(names ...string) string { return locking.ScriptText(scripts, names...) }

// writing is a script that writes, and the same for idempotent=on.
type writing struct{ plain, idempotent *redis.Script }

// newWriting makes both, with what is defined before them.
func newWriting(before, text string) writing {
	before += luaText("refused")
	return writing{
		plain:      redis.NewScript(before + text),
		idempotent: redis.NewScript(before + "local function write()\n" + text + "end\n" + luaText("once")),
	}
}

func (o *operation) writing() (keys []string, args []any) {
	args = []any{o.Price, int64(o.Item), o.member()}
	if o.lists {
		return []string{o.keys.Market(), o.keys.Inventory(o.Seller)}, args
	}
	keys = []string{
		o.keys.User(o.Seller), o.keys.User(o.Buyer), o.keys.Inventory(o.Buyer), o.keys.Market(),
	}
	return keys, args
}

// scripter runs one worker's scripts that write.
type scripter struct {
	Env
	rdb    redis.Scripter
	worker string // in the hash of outcomes; empty: none are kept
	number int64  // of its last operation
}

func newScripter(env Env) *scripter {
	s := &scripter{Env: env, rdb: env.Redis}
	if idempotent(env.Params) {
		s.worker = rand.Text()
	}
	return s
}

func (s *scripter) execute(ctx context.Context, op *operation) (r market.Receipt, err error) {
	s.Steps.At(ctx, step.BeforeWrite)
	script := purchaseWhole
	if op.lists {
		script = listWhole
	}
	keys, args := op.writing()
	err = s.run(ctx, script, keys, args)
	if err == nil {
		s.Steps.At(ctx, step.Written)
	}
	return r, err
}

// run runs a script that writes. Its errors are the script's refusal, ErrStale,
// and those of afterScript.
func (s *scripter) run(ctx context.Context, w writing, keys []string, args []any) error {
	// With a name and a number the server knows a call that is sent again, and answers as before.
	// They come last: once.lua takes them off the end.
	script := w.plain
	if s.worker != "" {
		s.number++
		script = w.idempotent
		keys = append(keys, s.Keys.Outcomes())
		args = append(args, s.worker, s.number)
	}

	if err := ctx.Err(); err != nil {
		return beforeWrite(err)
	}

	answer, err := script.Run(ctx, s.rdb, keys, args...).Result()
	if err != nil {
		return afterScript(err)
	}

	if reason, ok := answer.(string); ok {
		if refusal := market.Refusal(reason); refusal != nil {
			return refusal
		}
		return fmt.Errorf("the script answers %q, which is no refusal", reason)
	}
	if answer == int64(0) { // of listWrite and purchaseWrite: their caller is no longer registered
		return market.ErrStale
	}
	return nil
}

// Ends the error of a script whose first write the server refused.
const nothingWritten = "(nothing was written)"

// afterScript classifies the error of a script that writes: ErrRejected (nothing was
// written), or those of afterWrite.
func afterScript(err error) error {
	command, denied := redisconn.Denied(err)
	noScripts := denied && (command == "evalsha" || command == "eval")
	var server redis.Error
	if errors.As(err, &server) && strings.Contains(err.Error(), nothingWritten) || noScripts || redisconn.Redirected(err) {
		return fmt.Errorf("%w: %w", market.ErrRejected, err)
	}
	return afterWrite(err)
}

// luaShared runs the scripts of lua over one connection for all workers of a process,
// filled by go-redis's AutoPipeline: it sends at once what has come up, without waiting
// for replies, which saves both sides system calls.
//
// What breaks it is what breaks lua, and more. Whoever gives up waiting may have the
// order applied later: its outcome is unknown. A broken connection leaves the orders of
// all workers unknown at once. All must be the same user of the same server, and one slow
// reply keeps everybody waiting. What one purchase exchanges is not known. Source:
// go-redis, AutoPipelineOptions.FullDuplex (9.23, experimental);
// redis.io/docs/latest/develop/using-commands/pipelining.
func luaShared() Strategy {
	return Strategy{
		Name:     "lua-shared",
		Summary:  "the same scripts, of all workers over one connection: a full-duplex pipeline",
		Source:   "go-redis, AutoPipeline",
		Protects: Protection{Items: true, Accounts: true},
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			shared := lock.Share(env.Process, "pipeline", func() *pipeline {
				return &pipeline{dial: env.SharedClient}
			})
			// Not by newScripter, which sets rdb: while that is nil, execute opens the pipeline.
			s := &sharedScripter{scripter: scripter{Env: env}, shared: shared}
			return purchaser{env.Keys, s}, nil, nil
		},
	}
}

// sharedScripter is a worker's scripter over the connection of its process.
type sharedScripter struct {
	scripter
	shared *pipeline
}

func (s *sharedScripter) execute(ctx context.Context, op *operation) (market.Receipt, error) {
	if s.rdb == nil { // the worker's first operation
		pipe, err := s.shared.open(ctx)
		if err != nil {
			return market.Receipt{}, beforeWrite(err)
		}
		s.rdb = pipe
	}
	return s.scripter.execute(ctx, op)
}

// pipeline is the connection that the workers of a process share. The first
// operation of any of them opens it.
type pipeline struct {
	dial    func(context.Context) (*redis.Client, error)
	opening sync.Mutex
	rdb     *redis.Client
	pipe    pipe // of rdb
}

// open connects, if nobody has so far.
func (p *pipeline) open(ctx context.Context) (redis.Scripter, error) {
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.rdb != nil {
		return p.pipe, nil
	}

	rdb, err := p.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the connection that workers share: %w", err)
	}
	sender, err := redisconn.FullDuplex(rdb)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the pipeline that workers share: %w", err), rdb.Close())
	}
	p.rdb = rdb
	p.pipe = pipe{sender}
	return p.pipe, nil
}

// Close implements io.Closer. What was handed over is sent and answered before it returns. It
// locks nothing: it comes after the end of all workers.
func (p *pipeline) Close() error {
	if p.rdb == nil {
		return nil
	}
	return errors.Join(p.pipe.Close(), p.rdb.Close())
}

// pipe is a redis.Scripter over a pipeline. It waits no longer than the context says.
type pipe struct{ *redis.AutoPipeliner }

func (p pipe) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	return p.run(ctx, "eval", text, keys, args)
}

func (p pipe) EvalSha(ctx context.Context, hash string, keys []string, args ...any) *redis.Cmd {
	return p.run(ctx, "evalsha", hash, keys, args)
}

func (p pipe) run(ctx context.Context, name, script string, keys []string, args []any) *redis.Cmd {
	words := []any{name, script, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	cmd.SetFirstKeyPos(3) // after the command, the script and the number of keys
	err := p.Submit(ctx, cmd).WaitContext(ctx)
	if err != nil && ctx.Err() != nil { // the pipeline may still be writing into cmd
		cmd = redis.NewCmd(ctx)
		cmd.SetErr(err)
	}
	return cmd
}
