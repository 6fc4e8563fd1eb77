package fault

import (
	"fmt"
	"maps"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
)

// lockServers are those of the locks of the clients to come: one server apart from the
// market's, or several masters.
func (s *setup) lockServers() []*backend.Server {
	if s.scheme.FusesLock() {
		notPlayable("its lock is with its market, on a server that other scenarios use, too")
	}
	if s.masters == nil {
		return []*backend.Server{s.locksApart()}
	}
	return s.masters
}

// locksApart starts a Redis for the locks of the clients to come, apart from the market's.
func (s *setup) locksApart() *backend.Server {
	server := s.redis("")
	s.config.Locks = new(endpointOf(server.Target))
	return server
}

// redis starts a Redis for locks, with a random password if none is given. As a
// master it syncs a replica at once.
func (s *setup) redis(password string, args ...string) *backend.Server {
	local := backend.Local{
		Password: password,
		Args:     append(args, "--repl-diskless-sync-delay", "0"),
	}
	server, err := local.Start(s.ctx)
	if err != nil {
		fail(fmt.Errorf("a Redis for the locks: %w", err))
	}
	s.listenTo(server)
	return own(s, server)
}

func (s *setup) limitMemory(policy string) []*backend.Server {
	all := s.lockServers()
	for _, server := range all {
		conn := s.dial(server)
		check(conn.ConfigSet(s.ctx, "maxmemory", "8mb").Err())
		check(conn.ConfigSet(s.ctx, "maxmemory-policy", policy).Err())
	}
	return all
}

// fillMemory fills the memory of a private server until makeRoom is called. One command
// may exceed the limit; those after it make the server evict what it may, and are
// refused if that is not enough.
func (s *setup) fillMemory(server *backend.Server) (makeRoom func()) {
	conn := s.dial(server)
	check(conn.SetRange(s.ctx, "more", 16<<20, "x").Err())
	oneMore := conn.Set(s.ctx, "one more", "", 0).Err()
	s.noteFault(redis.HasErrorPrefix(oneMore, "OOM"), "the memory is not full")
	return func() { check(conn.Del(s.ctx, "more").Err()) }
}

// replicates writes a key, and returns when the server's one replica has it.
func (s *setup) replicates(conn *redisconn.Conn, key string) {
	check(conn.Set(s.ctx, key, "", 0).Err())
	if n := must(conn.Wait(s.ctx, 1, clientTimeout).Result()); n != 1 {
		fail(fmt.Errorf("%w: %d replicas have what was written", errLate, n))
	}
}

// forgets does something, after which one server of the locks is to know less than
// another, or itself, did before.
func (s *setup) forgets(before, after *backend.Server, does func()) {
	knew := s.known(before)
	does()
	if len(knew) > 0 && maps.Equal(knew, s.known(after)) {
		fail(fmt.Errorf("%w: the lock was replicated", errLate))
	}
	s.noteFault(len(knew) > 0, "lock and money fall together, see master-promoted")
}

// known is what private servers of the locks hold, by their number and key.
func (s *setup) known(servers ...*backend.Server) map[string]string {
	known := map[string]string{}
	for i, server := range servers {
		conn := s.dial(server)
		for _, key := range must(conn.Keys(s.ctx, s.keys.Prefix()+"*").Result()) {
			known[fmt.Sprint(i, key)], _ = conn.Dump(s.ctx, key).Result() // it may have expired
		}
	}
	return known
}
