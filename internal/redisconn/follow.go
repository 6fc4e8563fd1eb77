package redisconn

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	lookAgain = 10 * time.Millisecond // before what was refused with TRYAGAIN is sent once more
	followFor = 5 * time.Second       // for how long refused commands are sent again
)

// WithFollowing has the connections of a [Cluster.Dialer] follow a slot that moves: a command
// that was refused because of that (MOVED, ASK, TRYAGAIN) was not executed, and is sent again
// to the server that has the slot, or is about to have it. A MULTI/EXEC that was discarded is
// not, nor is a command after a WATCH: [Redirected] tells the caller, who knows what it has
// read. No row of a benchmark follows: it would measure the move.
//
// Source: redis.io, cluster specification, "Redirection and resharding".
func (d Dialer) WithFollowing() Dialer {
	d.following = d.cluster != nil
	return d
}

// A follower is the redis.Hook that sends refused commands where they belong.
type follower struct {
	connector *connector
	watching  atomic.Bool // a WATCH is in force, which belongs to its connection
}

// openConns are the connections of a connector that follows.
type openConns struct {
	mu  sync.Mutex
	all []net.Conn
}

func (o *openConns) add(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, conn)
}

// leave closes the connections to the server that was tried, so that go-redis makes another,
// to the slot's master. It notices before it writes a command to one that is closed.
func (o *openConns) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, conn := range o.all {
		_ = conn.Close() // its owner closes it, too
	}
	o.all = nil
}

// A redirect is what a refusal says of the server that would not refuse the command.
type redirect struct {
	code string // moved, ask or tryAgain; empty: it is none
	addr string // host:port of the server, with moved and ask
}

const (
	moved    = "MOVED"    // another server has the slot from now on
	ask      = "ASK"      // another server has the key, and will have the slot
	tryAgain = "TRYAGAIN" // this server will have all keys, and has some
)

func redirectOf(err error) redirect {
	if addr, ok := redis.IsMovedError(err); ok {
		return redirect{code: moved, addr: addr}
	}
	if addr, ok := redis.IsAskError(err); ok {
		return redirect{code: ask, addr: addr}
	}
	if answered(err, tryAgain) {
		return redirect{code: tryAgain}
	}
	return redirect{}
}

// firstRedirect is the redirect that one of some commands, or all together, got.
func firstRedirect(cmds []redis.Cmder, err error) redirect {
	for _, cmd := range cmds {
		if to := redirectOf(cmd.Err()); to.code != "" {
			return to
		}
	}
	return redirectOf(err)
}

// DialHook implements redis.Hook.
func (f *follower) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (f *follower) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Name() {
		case "watch":
			err := next(ctx, cmd)
			f.noteMoved(redirectOf(err))
			f.watching.Store(err == nil)
			return err
		case "unwatch":
			f.watching.Store(false)
			return next(ctx, cmd)
		}

		err := next(ctx, cmd)
		if redirectOf(err).code == "" {
			return err
		}
		cmd.SetErr(err) // which it does not have yet, as those of a pipeline do
		return f.follow(ctx, []redis.Cmder{cmd}, err, func([]redis.Cmder) error {
			cmd.SetErr(next(ctx, cmd))
			return cmd.Err()
		})
	}
}

// ProcessPipelineHook implements redis.Hook.
func (f *follower) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if len(cmds) > 0 && cmds[0].Name() == "multi" {
			f.noteMoved(firstRedirect(cmds, err))
			f.watching.Store(false)
			tellWhyDiscarded(cmds)
			return err
		}
		return f.follow(ctx, cmds, err, func(refused []redis.Cmder) error { return next(ctx, refused) })
	}
}

// follow sends those of the commands that were refused because of a redirect again, and
// again. It returns the error of the first command that has one, as a pipeline does; err is
// that of having sent them all.
func (f *follower) follow(
	ctx context.Context, cmds []redis.Cmder, err error, send func([]redis.Cmder) error,
) error {
	giveUp := time.Now().Add(followFor)
	for to := firstRedirect(cmds, err); to.code != ""; to = firstRedirect(cmds, err) {
		f.noteMoved(to) // even if these are not sent again: later ones go to the right server
		if f.watching.Load() || !time.Now().Before(giveUp) || ctx.Err() != nil {
			break
		}

		refused := slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool {
			return redirectOf(cmd.Err()).code == ""
		})
		if to.code == ask {
			f.ask(ctx, to.addr, refused)
			err = nil // each command has its own
			continue
		}
		if to.code == tryAgain && !sleep(ctx, lookAgain) {
			break
		}
		for _, cmd := range refused {
			cmd.SetErr(nil)
		}
		err = send(refused)
	}

	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return cmd.Err()
		}
	}
	return err
}

// sleep waits, and reports whether the context lasts longer.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// noteMoved sees to it that what is sent from now on goes to the server that has the slot.
func (f *follower) noteMoved(to redirect) {
	if to.code != moved {
		return
	}
	c := f.connector
	c.cluster.move(c.slot, nodeAddr(to.addr, c.lastTarget().Addr))
	c.open.leave()
}

// ask sends commands to the server at addr, which is about to have their slot. If it is out
// of reach, they stay refused.
func (f *follower) ask(ctx context.Context, addr string, cmds []redis.Cmder) {
	target := f.connector.lastTarget()
	target.Addr = nodeAddr(addr, target.Addr)
	conn, err := To(target).WithStats(f.connector.meter.Stats).Dial(ctx)
	if err != nil {
		sleep(ctx, lookAgain)
		return
	}
	defer conn.Close()

	tryLater := false
	for _, cmd := range cmds {
		if conn.Do(ctx, "asking").Err() == nil {
			cmd.SetErr(nil)
			_ = conn.Process(ctx, cmd) // cmd has its error
			tryLater = tryLater || redirectOf(cmd.Err()).code == tryAgain
		}
	}
	if tryLater { // the rest of the keys is on its way
		sleep(ctx, lookAgain)
	}
}

// tellWhyDiscarded gives those commands of a transaction that were discarded with it the
// redirect for which it was.
func tellWhyDiscarded(cmds []redis.Cmder) {
	refused := slices.IndexFunc(cmds, func(cmd redis.Cmder) bool { return redirectOf(cmd.Err()).code != "" })
	if refused < 0 {
		return
	}
	for _, cmd := range cmds {
		if redis.IsExecAbortError(cmd.Err()) {
			cmd.SetErr(cmds[refused].Err())
		}
	}
}
