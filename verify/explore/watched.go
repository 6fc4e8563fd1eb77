package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A watch is what a connection watches for its EXEC, which fails if something has touched
// it. Miniredis knows that and does not say it. What has changed a watched key has touched it;
// of a command that could have and has not, such as a SET to the same value, it is not known,
// so that all of them are in the state.
type watch struct {
	keys    []string
	held    string   // what they held when they were watched, when, and for how long
	changed []string // the commands that have changed one, by their names; each once
	unknown history  // the other commands that could have touched one
}

// say writes what is known of it.
func (w watch) say(say sayer) {
	if len(w.keys) > 0 {
		say(partWatch, "%q %q %q %x", w.keys, w.held, w.changed, w.unknown.digest)
	}
}

// watches begins to watch keys over a connection.
func (s *Server) watches(c *conn, keys []string) {
	if len(c.watch.keys) == 0 {
		s.watching = append(s.watching, c)
	}
	c.watch.keys = append(c.watch.keys, keys...)
	c.watch.held += fmt.Sprintf("at %d %s", s.world.since(time.Now()), s.values(keys))
}

// unwatches ends what a connection watches.
func (s *Server) unwatches(c *conn) {
	c.watch = watch{}
	s.watching = slices.DeleteFunc(s.watching, func(other *conn) bool {
		return other == c
	})
}

// touches notes a command that writes a key, or may, for the connections that watch it.
func (s *Server) touches(key, cmd string, args []string) {
	for _, c := range s.watching {
		uses := key == everything || slices.Contains(c.watch.keys, key)
		if uses && len(c.watch.changed) == 0 {
			c.watch.unknown.add("%s %q at %d", cmd, args, s.world.since(time.Now()))
		}
	}
}

// dispatchWatched has a command executed, and notes whether it has changed what is watched.
func (s *Server) dispatchWatched(command []string, dispatch func()) {
	before := map[*conn]watch{}
	values := map[*conn]string{}
	for _, c := range s.watching {
		before[c] = c.watch
		values[c] = s.values(c.watch.keys)
	}

	dispatch()
	for c, was := range before {
		if len(c.watch.keys) == 0 || s.values(was.keys) == values[c] {
			continue // it watches nothing any more, or finds the same there
		}

		names := append(slices.Clone(was.changed), command[0])
		slices.Sort(names)
		// That these have changed it is all that matters from now on: what was there before, and
		// what may have touched it, are dropped, so that more states are equal.
		c.watch = watch{keys: c.watch.keys, changed: slices.Compact(names)}
	}
}

// values are what some keys hold, in each database. Those that hold nothing are left out:
// to have selected another database touches no key.
func (s *Server) values(keys []string) string {
	var b strings.Builder
	for _, n := range s.used() {
		db := s.redis.DB(n)
		for _, key := range keys {
			if !db.Exists(key) {
				continue
			}
			fmt.Fprintf(&b, "%d %q %d ", n, key, db.TTL(key))
			writeValue(&b, db, key)
		}
	}
	return b.String()
}
