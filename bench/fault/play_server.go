package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

// long is a lease that outlasts what happens to a server.
const long = 6 * time.Second

func restartedEmpty() Scenario {
	return Scenario{
		Name:    "restart-empty",
		Title:   "the Redis of the locks, apart from the market's, is killed and restarted empty while the lock is held",
		Needs:   "redis-server",
		Lease:   long,
		Applies: needsOneRedis,
		play: func(s *Stage) (Verdict, string) {
			server := s.lockServer()
			return besideHolder(s, func() {
				s.do(func() error { return server.restart(s.ctx) })
			}, "the lock is gone with the server's memory: another gets in beside the holder")
		},
	}
}

// besideHolder holds a buyer just before it writes, does something to the servers, and lets another buy the same item
// before and after the first goes on.
func besideHolder(s *Stage, strike func(), how string) (Verdict, string) {
	return besideHolderAfter(s, func() {}, strike, how)
}

// besideHolderAfter is besideHolder with something done to the servers just before the first takes the lock.
func besideHolderAfter(s *Stage, before, strike func(), how string) (Verdict, string) {
	lister, a := s.actor("S"), s.actor("A")
	lister.list(s.unlisted()) // under the same lock, as every item was: a fence has begun to count
	lister.ends()
	before()
	item := s.unlisted().Item
	start := time.Now()
	a.buy(item, Point{At: step.BeforeWrite})
	a.reaches(step.BeforeWrite)
	strike()
	b := s.actor("B") // connects to what there is now
	b.buy(item, Point{At: step.BeforeWrite})
	in := b.held(s.ttl/4) == step.BeforeWrite
	refused := b.op.done && b.op.outcome.Reason == "stale"
	s.prompt(start) // or the lease has run out, which is another story
	a.goOn()
	first := a.ends()
	b.free()
	b.ends()
	bad, what := s.count()
	switch {
	case bad == Safe && refused:
		return Safe, "the fences count from 1 again: newcomers are refused as stale until they have passed the last one registered"
	case bad != Safe:
		return bad, how + ": " + what
	case in && first.Reason == "stale":
		return Safe, how + "; the market refused the first write as stale"
	case in && !first.Applied():
		return Safe, how + "; the first write was refused (" + first.Reason + ")"
	case in:
		return TwoHolders, how
	}
	return Safe, "the lock is still there: nobody else gets in"
}

// needsOneRedis keeps out whoever has no lock, or one that lives elsewhere.
func needsOneRedis(s Subject) string {
	if why := needsLock(s); why != "" {
		return why
	}
	switch s.Lock.Needs {
	case lock.NeedsMasters:
		return "its lock is on several masters: see the redlock scenarios"
	case lock.NeedsZooKeeper, lock.NeedsEtcd:
		return "its lock is not in Redis, and its servers keep what they know on disk"
	}
	return ""
}

// A mortal is a private server that can be killed and started again, empty, at the same address.
type mortal struct{ server *backend.Server }

// lockServer starts a Redis for the locks of this stage alone.
func (s *Stage) lockServer() *mortal {
	m := &mortal{}
	if s.failed() {
		return m
	}
	server, err := backend.Local{}.Start(s.ctx)
	if err != nil {
		s.fail(fmt.Errorf("a Redis for the locks (apt-get install redis-server installs it): %w", err))
		return m
	}
	m.server = server
	s.own(m)
	where := at(server.Target)
	s.cast.Locks = &where
	return m
}

func (m *mortal) restart(ctx context.Context) error {
	_, port, err := net.SplitHostPort(m.server.Target.Addr)
	if err := errors.Join(err, m.server.Kill(), m.server.Close()); err != nil {
		return err
	}
	again, err := backend.Local{Args: []string{"--port", port}}.Start(ctx)
	if err != nil {
		return err
	}
	m.server = again
	return nil
}

// Close ends the server.
func (m *mortal) Close() error { return m.server.Close() }
