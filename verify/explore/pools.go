package explore

import (
	"flag"
	"runtime"
	"strings"
)

// pools tells whether a client has waited for its turn at a pool of connections. go-redis keeps the timers of such
// waits in a sync.Pool, and the Go runtime's block profile is where a wait is seen.
type pools struct {
	watched bool
	stacks  int // of the profile, so far
	seen    bool
}

// watch has waits noted until it is told to let them be, unless somebody else has asked for that profile.
func (p *pools) watch() (end func()) {
	if f := flag.Lookup("test.blockprofile"); f != nil && f.Value.String() != "" {
		return func() {}
	}
	p.watched = true
	runtime.SetBlockProfileRate(1)
	return func() { runtime.SetBlockProfileRate(0) }
}

// waited reports whether one has waited so far, or may have.
func (p *pools) waited() bool {
	if !p.watched || p.seen {
		return true
	}
	n, _ := runtime.BlockProfile(nil)
	if n == p.stacks {
		return false
	}
	records := make([]runtime.BlockProfileRecord, n+16)
	p.stacks, _ = runtime.BlockProfile(records)
	for _, r := range records[:min(p.stacks, len(records))] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more && !p.seen; {
			var at runtime.Frame
			at, more = frames.Next()
			p.seen = strings.HasPrefix(at.Function, "github.com/redis/go-redis/v9/internal.") &&
				strings.Contains(at.Function, "Semaphore")
		}
	}
	return p.seen
}
