package chaos

import (
	"context"
	"errors"
)

// forever is a delay that no fault outlasts, in milliseconds.
const forever = 60 * 60 * 1000

// LockServer is the server that locks are on where that is not the market's.
type LockServer interface {
	Kill() error                       // ends it as a crash would
	Restart(ctx context.Context) error // starts it again, with its data, and returns when it serves
}

// strike breaks what f breaks. The heal it returns mends that, and is to be called whatever the error.
func (a *Arena) strike(f Fault, locks LockServer) (heal func(context.Context) error, err error) {
	switch f.Kind {
	case Refuse:
		for _, l := range a.struck(f) {
			l.stop()
		}
		return func(context.Context) error { return a.open(f) }, nil
	case ServerKill:
		return a.restart, a.crash()
	case LockKill:
		return locks.Restart, locks.Kill()
	case ServerPause:
		pid := a.Server().PID()
		return func(context.Context) error { return resume(pid) }, pause(pid)
	}
	var errs []error
	for _, l := range a.struck(f) {
		for _, t := range f.toxics() {
			errs = append(errs, l.poison(t))
		}
	}
	return func(context.Context) error {
		for _, l := range a.struck(f) {
			l.clean()
		}
		return nil
	}, errors.Join(errs...)
}

// struck are the lines that a fault strikes.
func (a *Arena) struck(f Fault) []*line {
	if f.Line == 0 {
		return a.lines
	}
	return a.lines[f.Line-1 : f.Line]
}

// open starts the lines that a fault has stopped.
func (a *Arena) open(f Fault) error {
	var errs []error
	for _, l := range a.struck(f) {
		errs = append(errs, l.start())
	}
	return errors.Join(errs...)
}

// toxics are what makes the fault of a connection. A black hole ends, with toxiproxy's timeout, in closed connections:
// one that went on with a part of its data missing is something that TCP does not do to anybody.
func (f Fault) toxics() []toxic {
	direction := "downstream"
	if f.Up {
		direction = "upstream"
	}
	switch f.Kind {
	case Latency:
		attributes := map[string]int64{"latency": f.Delay.Milliseconds(), "jitter": f.Jitter.Milliseconds()}
		return []toxic{{"latency", "upstream", attributes}, {"latency", "downstream", attributes}}
	case Stall:
		return []toxic{{"latency", direction, map[string]int64{"latency": forever}}}
	case BlackHole:
		return []toxic{{"timeout", direction, map[string]int64{"timeout": 0}}}
	case Reset:
		return []toxic{{"reset_peer", "upstream", map[string]int64{"timeout": 0}}}
	case Cut:
		return []toxic{{"limit_data", "upstream", map[string]int64{"bytes": f.Bytes}}}
	case LostReply:
		return []toxic{{"limit_data", "downstream", map[string]int64{"bytes": f.Bytes}}}
	}
	return nil
}
