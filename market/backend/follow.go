package backend

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	lookAgain = 10 * time.Millisecond // before what was refused because keys are on their way is tried once more
	moving    = 5 * time.Second       // for how long that is done
)

// Redirected reports whether a server refused a command, or discarded a transaction, because another server is
// responsible for its keys, or none is at the moment. A connection of [Cluster.Dialer] then goes to whoever is.
func Redirected(err error) bool { return redirectOf(err) != (redirect{}) }

// A redirect is what a refused command says about who would not refuse it.
type redirect struct {
	code string // of the refusal; empty: it is none
	addr string // of who is responsible, host:port, with moved and ask
}

const (
	moved    = "MOVED"    // another server is responsible from now on
	ask      = "ASK"      // another server is, for this command
	tryAgain = "TRYAGAIN" // it is this server, but not now: the keys are on their way
)

// redirectOf reads a server's refusal. With other codes the server is no master, knows of none, or misses its replicas.
func redirectOf(err error) redirect {
	if addr, ok := redis.IsMovedError(err); ok {
		return redirect{moved, addr}
	}
	if addr, ok := redis.IsAskError(err); ok {
		return redirect{ask, addr}
	}
	for _, code := range []string{
		tryAgain, "READONLY", "UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN", "LOADING", "NOREPLICAS",
	} {
		if answered(err, code) {
			return redirect{code: code}
		}
	}
	return redirect{}
}

// firstRefused is the redirect that one of a pipeline's commands, or the pipeline itself, got.
func firstRefused(cmds []redis.Cmder, err error) redirect {
	for _, cmd := range cmds {
		if to := redirectOf(cmd.Err()); to.code != "" {
			return to
		}
	}
	return redirectOf(err)
}

// follower is the redis.Hook that sends refused commands where they belong: the first, so that others see each attempt.
type follower struct{ dialer *dialer }

func (f follower) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f follower) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Name() {
		case "watch":
			f.dialer.watching.Store(true)
			err := next(ctx, cmd)
			f.again(ctx, redirectOf(err), time.Time{})
			f.dialer.watching.Store(err == nil)
			return err
		case "unwatch":
			f.dialer.watching.Store(false)
			return next(ctx, cmd)
		}
		err := next(ctx, cmd)
		if !Redirected(err) {
			return err
		}
		cmd.SetErr(err) // which it does not have yet, as those of a pipeline do
		return f.follow(ctx, []redis.Cmder{cmd}, err, func([]redis.Cmder) error {
			cmd.SetErr(next(ctx, cmd))
			return cmd.Err()
		})
	}
}

func (f follower) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if len(cmds) > 0 && cmds[0].Name() == "multi" { // begun anew by who knows what it has read
			f.again(ctx, firstRefused(cmds, err), time.Time{})
			f.dialer.watching.Store(false)
			tellWhyDiscarded(cmds)
			return err
		}
		return f.follow(ctx, cmds, err, func(refused []redis.Cmder) error { return next(ctx, refused) })
	}
}

// follow sends those of the commands that were refused because of a redirect again, and again. It returns the error of
// the first command that has one, as a pipeline does; err is that of having sent them all.
func (f follower) follow(ctx context.Context, cmds []redis.Cmder, err error, send func([]redis.Cmder) error) error {
	giveUp := time.Now().Add(moving)
	for to := firstRefused(cmds, err); f.again(ctx, to, giveUp); to = firstRefused(cmds, err) {
		refused := slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool { return !Redirected(cmd.Err()) })
		if to.code == ask {
			f.ask(ctx, to.addr, refused)
			err = nil // each command has its own
			continue
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

// tellWhyDiscarded gives those commands of a transaction that were discarded with it the redirect for which it was.
func tellWhyDiscarded(cmds []redis.Cmder) {
	refused := slices.IndexFunc(cmds, func(cmd redis.Cmder) bool { return Redirected(cmd.Err()) })
	if refused < 0 {
		return
	}
	for _, cmd := range cmds {
		if redis.IsExecAbortError(cmd.Err()) {
			cmd.SetErr(cmds[refused].Err())
		}
	}
}

// again reports whether a command that was refused is to be sent again, which then goes to whoever is responsible.
func (f follower) again(ctx context.Context, to redirect, giveUp time.Time) bool {
	d := f.dialer
	switch to.code {
	case moved:
		d.cluster.moved(d.slot, nodeAddr(to.addr, d.tried().Addr))
		d.leave()
	case ask, tryAgain:
	default:
		return false
	}
	if d.watching.Load() || !time.Now().Before(giveUp) || ctx.Err() != nil {
		return false
	}
	if to.code == tryAgain {
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// ask sends commands to the server at addr, which takes over their slot, as commands of a slot that is not its own yet.
// Where it cannot be reached, they stay refused.
func (f follower) ask(ctx context.Context, addr string, cmds []redis.Cmder) {
	target := f.dialer.tried()
	target.Addr = nodeAddr(addr, target.Addr)
	conn, err := Dial(CountInto(ctx, f.dialer.meter.Stats), target)
	if err != nil {
		time.Sleep(lookAgain)
		return
	}
	defer conn.Close()
	for _, cmd := range cmds {
		if conn.Do(ctx, "asking").Err() == nil {
			cmd.SetErr(nil)
			_ = conn.Process(ctx, cmd) // cmd has its error
		}
	}
}

// leave closes the connections to the server that was tried, so that go-redis makes another, to the slot's master. It
// notices before it writes a command to one that is closed.
func (d *dialer) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.open {
		_ = conn.Conn.Close() // its owner closes it, too
	}
	clear(d.open)
}

// reach connects to the server, of a cluster to the slot's master. Where that one cannot be reached, the
// nodes say whether another has taken its place.
func (d *dialer) reach(ctx context.Context) (net.Conn, error) {
	if d.cluster == nil {
		return d.connect(ctx, d.tried())
	}
	conn, err := d.connect(ctx, d.turn())
	if err == nil || d.cluster.Refresh(ctx) != nil || d.cluster.master(d.slot).Addr == d.tried().Addr {
		return conn, err
	}
	return d.connect(ctx, d.turn())
}

// turn makes the slot's master, as far as is known, the target.
func (d *dialer) turn() Target {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = d.cluster.master(d.slot)
	return d.target
}

// tried is the server to which the last connection was made.
func (d *dialer) tried() Target {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.target
}
