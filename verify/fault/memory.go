package fault

import (
	"fmt"
	"maps"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

// memory is what that of a private server of the locks is limited to.
const memory = "8mb"

// evicted puts the lock among 6,000 keys without an expiry, fills the memory while it is held, and makes room again.
func evicted(s *setup) observed {
	var others []any
	for i := range 6000 {
		others = append(others, fmt.Sprint("other:", i), "")
	}
	all := s.limited("volatile-ttl")
	for _, server := range all {
		check(s.dial(server).MSet(s.ctx, others...).Err())
	}
	return besideHolder(s, func() {}, func() {
		knew := s.known(all...)
		for _, server := range all {
			s.filled(server)()
			if left := len(must(s.dial(server).Keys(s.ctx, "other:*").Result())); left != len(others)/2 {
				fail(fmt.Errorf("of %d keys without an expiry %d are left", len(others)/2, left))
			}
		}
		if maps.Equal(knew, s.known(all...)) {
			cannot("it has no key here that expires, and only those are evicted")
		}
	}, "of all keys on the server the lock was evicted, because it expires: another gets in beside the holder")
}

// outOfMemory fills the memory while the lock is held, until the holder has released it and another has tried.
func outOfMemory(s *setup) observed {
	all := s.limited("noeviction")
	a, b := s.client("A"), s.client("B")
	b.buys(s.item(0)) // loads the scripts
	a.lists(0)
	var makeRoom []func()
	for _, server := range all {
		makeRoom = append(makeRoom, s.filled(server))
	}
	a.finish()
	b.buy(s.item(1))
	o, ended := b.endsWithin(s.ttl / 4)
	for _, free := range makeRoom {
		free()
	}
	b.ends()
	kept, taking := b.keptFrom(s.spare(0).Item, a.op.began), "another order fails"
	if ended && o.Applied() {
		taking = "another lock is taken"
	}
	return s.saw(kept, fmt.Sprintf("while the memory is full %s; when the holder has released, %s", taking, entry(kept)))
}

// limited are the servers of the locks, with little memory.
func (s *setup) limited(policy string) []*backend.Server {
	all := s.lockServers()
	for _, server := range all {
		conn := s.dial(server)
		check(conn.ConfigSet(s.ctx, "maxmemory", memory).Err())
		check(conn.ConfigSet(s.ctx, "maxmemory-policy", policy).Err())
	}
	return all
}

// filled fills the memory of a private server, until makeRoom is called: one command may exceed the limit, those after
// it have the server evict what it may, and are refused where that is not enough.
func (s *setup) filled(server *backend.Server) (makeRoom func()) {
	conn := s.dial(server)
	check(conn.SetRange(s.ctx, "more", 16<<20, "x").Err())
	s.strikes(redis.HasErrorPrefix(conn.Set(s.ctx, "one more", "", 0).Err(), "OOM"), "the memory is not full")
	return func() { check(conn.Del(s.ctx, "more").Err()) }
}
