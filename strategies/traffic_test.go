package strategies_test

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/step"
)

// scripted are specs that read and write by script.
var scripted = []string{
	"fine:fencing=off", "coarse:fenced:fencing=on",
	"fine-wallet:fencing=token", "fine:fenced:fencing=on:idempotent=on",
	"lua:idempotent=on",
}

// fusedSpecs take the lock and read, and write and release, in one go.
var fusedSpecs = []string{"fine:set-px:write=fused"}

// once is an observer that does something when its worker first comes to a step.
func once(at step.Name, do func()) step.Observer {
	done := false
	return func(_ context.Context, now step.Name) {
		if now == at && !done {
			done = true
			do()
		}
	}
}

// traffic is what a purchase sends, each command or pipeline after the step that its
// worker reported last. It is that worker's observer and its connection's hook.
type traffic struct {
	after step.Name
	sent  map[step.Name][][]string
}

func (r *traffic) observe(_ context.Context, at step.Name) {
	// or the release is part of the write
	if at != step.BeforeRelease || len(r.sent[step.BeforeWrite]) > 0 {
		r.after = at
	}
}

func (r *traffic) note(cmds ...redis.Cmder) {
	var names []string
	for _, cmd := range cmds {
		names = append(names, cmd.Name())
	}
	r.sent[r.after] = append(r.sent[r.after], names)
}

func (r *traffic) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *traffic) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note(cmd)
		return next(ctx, cmd)
	}
}

func (r *traffic) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.note(cmds...)
		return next(ctx, cmds)
	}
}

// traffic records a purchase by a worker that has made one before: the server then knows
// the scripts that EVALSHA runs.
func (g *fixture) traffic(spec string) *traffic {
	g.Helper()
	r := &traffic{}
	w := g.open(spec, g.server, observing(r.observe), r)
	for n := range 2 {
		r.after = ""
		r.sent = map[step.Name][][]string{}
		order := g.offer(8 + n)
		order.Buyer = seller // who can afford both
		_, err := w.purchase(order)
		g.must(err)
	}

	if len(r.sent[step.BeforeWrite]) == 0 {
		g.Fatalf("%s sends nothing after the step %s", spec, step.BeforeWrite)
	}
	return r
}

// read is the name of the first command that reads the market: after the step
// acquired for a strategy that takes locks. It is empty for a strategy that
// reads and writes by one command.
func (r *traffic) read() string {
	for _, name := range slices.Concat(slices.Concat(r.sent[r.reading()]...)) {
		if name != "watch" && name != "multi" {
			return name
		}
	}
	return ""
}

// reading is the step after which a purchase reads.
func (r *traffic) reading() step.Name {
	if len(r.sent[step.Acquired]) > 0 {
		return step.Acquired
	}
	return ""
}

// write is the names of the first command or transaction that writes.
func (r *traffic) write() []string { return r.sent[step.BeforeWrite][0] }

// exec is the command that makes the write: EXEC, or the one command that is sent.
func (r *traffic) exec() string { return r.write()[len(r.write())-1] }
