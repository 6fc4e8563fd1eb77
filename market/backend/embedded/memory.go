package embedded

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Memory starts a miniredis that knows scripts, without a listener and without goroutines: it executes in the goroutine
// that calls Dispatch of its Server, as a bubble of package synctest needs it. Keys expire by the clock.
func Memory(scripts ...string) *miniredis.Miniredis {
	m := miniredis.NewMiniRedis()
	starts, _ := m.Dial() // the only way to a server without a listener; it does not fail
	starts.Close()
	m.ClockTTL(true)
	for _, script := range scripts {
		m.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), []string{"SCRIPT", "LOAD", script})
	}
	return m
}

// Executed is an entry in the log of a server in memory: what a connection sent at once.
type Executed struct {
	Connection any // which one: a WATCH and a MULTI are its own
	At         time.Time
	Commands   [][]string
}

// Lag makes a server in memory a replica that lags: it executes a log, but for the last writes that changed something.
// It returns what is left of the log, in which subscriptions do nothing.
func Lag(m *miniredis.Miniredis, log []Executed, without int) []Executed {
	now := time.Now()
	for held := repeat(m, log, now); len(log) > 0 && without > 0; {
		log = log[: len(log)-1 : len(log)-1]
		if holds := repeat(m, log, now); holds != held {
			held = holds
			without--
		}
	}
	m.ClockTTL(false)
	m.SetTime(time.Time{})
	m.ClockTTL(true)
	return log
}

// repeat executes a log from an empty start, each entry at its time, and returns what the server holds at the
// end, and for how long.
func repeat(m *miniredis.Miniredis, log []Executed, now time.Time) string {
	m.FlushAll()
	peers := map[any]*server.Peer{}
	for _, e := range log {
		if peers[e.Connection] == nil {
			peers[e.Connection] = server.NewPeer(bufio.NewWriter(io.Discard))
		}
		m.SetTime(e.At)
		for _, command := range e.Commands {
			if !strings.HasSuffix(strings.ToLower(command[0]), "subscribe") {
				m.Server().Dispatch(peers[e.Connection], slices.Clone(command)) // which may change it
			}
		}
	}
	// In this order, or every key expires: to the present, then a look, and then, in Lag, the clock.
	m.SetTime(now)
	m.Exists("")
	holds := m.Dump()
	for _, key := range m.Keys() {
		holds += m.TTL(key).String() + " "
	}
	return holds
}
