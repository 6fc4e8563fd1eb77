package fault

import (
	"fmt"
	"maps"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// memory is what that of a private server of the locks is limited to.
const memory = "8mb"

// evicted puts the lock among 6,000 keys without an expiry,
// fills the memory while the lock is held, and makes room again.
func evicted(s *setup) observed {
	server, conn := s.locksApart("--maxmemory", memory, "--maxmemory-policy", "volatile-ttl")
	var others []any
	for i := range 6000 {
		others = append(others, fmt.Sprint("other:", i), "")
	}
	check(conn.MSet(s.ctx, others...).Err())
	return besideHolder(s, func() {}, func() {
		knew := s.lockedOn(server)
		s.filled(conn)()
		if maps.Equal(knew, s.known(server)) {
			cannot("it has no key here that expires, and only those are evicted")
		}
		if left := len(must(conn.Keys(s.ctx, "other:*").Result())); left != len(others)/2 {
			fail(fmt.Errorf("of %d keys without an expiry %d are left", len(others)/2, left))
		}
	}, "of all keys on the server the lock was evicted, because it expires: another gets in beside the holder")
}

// outOfMemory fills the memory while the lock is held, lets the holder release it and another try,
// and makes room again.
func outOfMemory(s *setup) observed {
	server, conn := s.locksApart("--maxmemory", memory)
	a, b := s.client("A"), s.client("B")
	b.buy(s.item(0)) // loads the scripts
	b.ends()
	lease := time.Now()
	a.list(s.spare(0), at(step.BeforeRelease))
	a.reaches(step.BeforeRelease)
	s.lockedOn(server)
	makeRoom := s.filled(conn)
	a.finish()
	b.buy(s.item(1))
	o, ended := b.endsWithin(s.ttl / 4)
	makeRoom()
	b.ends()
	b.buy(s.spare(0).Item)
	kept, taking := s.keptOut(b, lease), "another order fails"
	if ended && o.Applied() {
		taking = "another lock is taken"
	}
	return s.saw(kept, fmt.Sprintf("while the memory is full %s; when the holder has released, %s", taking, entry(kept)))
}

// lockedOn is what a server of the locks knows while a lock is held. The run ends where the lock is not there.
func (s *setup) lockedOn(server *backend.Server) map[string]string {
	knows := s.known(server)
	if len(knows) == 0 {
		cannot("its lock is with its market, and not on a server of its own")
	}
	return knows
}

// filled fills the memory of a private server, until makeRoom is called: one command may exceed the limit, those after
// it have the server evict what it may, and are refused where that is not enough.
func (s *setup) filled(conn *backend.Conn) (makeRoom func()) {
	check(conn.SetRange(s.ctx, "more", 16<<20, "x").Err())
	s.strikes(redis.HasErrorPrefix(conn.Set(s.ctx, "one more", "", 0).Err(), "OOM"), "the memory is not full")
	return func() { check(conn.Del(s.ctx, "more").Err()) }
}
