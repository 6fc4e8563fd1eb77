package backend

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// lookAgain is how long a connection waits before it tries once more what was refused because keys are on their way, and
// moving for how long it does so.
const (
	lookAgain = 10 * time.Millisecond
	moving    = 5 * time.Second
)

// Redirected reports whether a server refused a command, or discarded a transaction, because another server is responsible
// for its keys, or because none is at the moment. The command was certainly not executed. A connection of
// [Cluster.Dialer] goes to whoever is responsible with its next command.
func Redirected(err error) bool { return redirectOf(err).kind != notRedirected }

// A redirect is what a refused command says about who would not refuse it.
type redirect struct {
	kind redirectKind
	addr string // of who is responsible, host:port; empty: the server does not say
}

type redirectKind int

const (
	notRedirected redirectKind = iota
	movedTo                    // another server is responsible from now on
	askAt                      // another server is, for this command
	notNow                     // it is this server, but not now: the keys are on their way
	nobody                     // the server is no master, knows of none, or misses its replicas
)

// redirectOf reads a server's refusal.
func redirectOf(err error) redirect {
	if err == nil {
		return redirect{}
	}
	if addr, ok := redis.IsMovedError(err); ok {
		return redirect{movedTo, addr}
	}
	if addr, ok := redis.IsAskError(err); ok {
		return redirect{askAt, addr}
	}
	if answered(err, "TRYAGAIN") {
		return redirect{kind: notNow}
	}
	for _, code := range []string{"READONLY", "UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN", "LOADING", "NOREPLICAS"} {
		if answered(err, code) {
			return redirect{kind: nobody}
		}
	}
	return redirect{}
}

// redirectAmong is the redirect that one of a pipeline's commands, or the pipeline itself, got.
func redirectAmong(cmds []redis.Cmder, err error) redirect {
	for _, cmd := range cmds {
		if to := redirectOf(cmd.Err()); to.kind != notRedirected {
			return to
		}
	}
	return redirectOf(err)
}

// follower is the redis.Hook that sends refused commands where they belong. It is the first hook, so that the others see
// each attempt.
type follower struct{ dialer *dialer }

func (f follower) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f follower) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Name() {
		case "watch":
			f.dialer.watching.Store(true)
			err := next(ctx, cmd)
			f.again(ctx, redirectOf(err), err, time.Time{})
			f.dialer.watching.Store(err == nil)
			return err
		case "unwatch":
			f.dialer.watching.Store(false)
			return next(ctx, cmd)
		}
		err := next(ctx, cmd)
		for giveUp := time.Now().Add(moving); f.again(ctx, redirectOf(err), err, giveUp); {
			to := redirectOf(err)
			cmd.SetErr(nil)
			if to.kind == askAt {
				err = f.ask(ctx, to.addr, cmd)
				continue
			}
			err = next(ctx, cmd)
		}
		return err
	}
}

func (f follower) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if len(cmds) > 0 && cmds[0].Name() == "multi" { // begun anew by who knows what it has read
			f.again(ctx, redirectAmong(cmds, err), err, time.Time{})
			f.dialer.watching.Store(false)
			tellWhyDiscarded(cmds)
			return err
		}
		refused := cmds
		for giveUp := time.Now().Add(moving); f.again(ctx, redirectAmong(refused, err), err, giveUp); {
			to := redirectAmong(refused, err)
			if refused = redirected(refused); to.kind == askAt {
				err = f.ask(ctx, to.addr, refused...)
				continue
			}
			err = next(ctx, refused)
		}
		return firstOf(cmds)
	}
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

// redirected are the commands of a pipeline that were refused because of a redirect, ready to be sent again.
func redirected(cmds []redis.Cmder) (refused []redis.Cmder) {
	for _, cmd := range cmds {
		if Redirected(cmd.Err()) {
			cmd.SetErr(nil)
			refused = append(refused, cmd)
		}
	}
	return refused
}

// firstOf is the error of the first command that has one, as a pipeline returns it.
func firstOf(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}

// again reports whether a command that ended with err is to be sent again, and makes sure that it then goes to whoever is
// responsible.
func (f follower) again(ctx context.Context, to redirect, err error, giveUp time.Time) bool {
	d := f.dialer
	switch to.kind {
	case notRedirected:
		var refused redis.Error
		if err != nil && !errors.As(err, &refused) { // the master may be dead
			d.doubted.Store(true)
		}
		return false
	case nobody:
		return false
	case movedTo:
		d.cluster.moved(d.slot, to.addr)
		d.leave()
	}
	if d.watching.Load() || !time.Now().Before(giveUp) || ctx.Err() != nil {
		return false
	}
	return to.kind != notNow || rest(ctx)
}

// rest waits a little, and reports whether ctx goes on.
func rest(ctx context.Context) bool {
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ask sends commands to the server at addr, which takes over their slot, as commands of a slot that is not its own yet.
// What the other server then refuses is refused.
func (f follower) ask(ctx context.Context, addr string, cmds ...redis.Cmder) error {
	target := f.dialer.tried()
	target.Addr = addr
	conn, err := Dial(CountInto(ctx, f.dialer.meter.Stats), target)
	if err != nil { // nothing was sent
		for _, cmd := range cmds {
			cmd.SetErr(errNotNow)
		}
		return errNotNow
	}
	defer conn.Close()
	for _, cmd := range cmds {
		if conn.Do(ctx, "asking").Err() != nil {
			cmd.SetErr(errNotNow)
			continue
		}
		_ = conn.Process(ctx, cmd) // cmd has its error
	}
	return firstOf(cmds)
}

// errNotNow stands for a refusal of a server that could not be asked.
var errNotNow error = refusal("TRYAGAIN the server that takes over the slot cannot be reached")

// refusal is an error as servers answer it.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

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

// opened notes a connection that go-redis uses, and closed that it does no more.
func (d *dialer) opened(conn *countingConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[conn] = struct{}{}
}

func (d *dialer) closed(conn *countingConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, conn)
}

// reach connects to the server, of a cluster to the slot's master: as the nodes say now, where the last attempt failed or the
// last connection broke.
func (d *dialer) reach(ctx context.Context) (net.Conn, error) {
	if d.cluster != nil {
		if d.doubted.Load() {
			_ = d.cluster.Refresh(ctx) // the one that was known may serve again before anybody says so
		}
		d.mu.Lock()
		d.target = d.cluster.master(d.slot)
		d.mu.Unlock()
	}
	conn, err := d.connect(ctx, d.tried())
	d.doubted.Store(err != nil)
	return conn, err
}

// tried is the server to which the last connection was made.
func (d *dialer) tried() Target {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.target
}
