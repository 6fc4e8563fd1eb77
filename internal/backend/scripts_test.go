package backend_test

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
)

// What these scripts do depends on what they find; the second writes before it looks, and
// the last fails in the middle.
var scripts = []string{
	`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
	 return redis.error_reply('not yours')`,
	`local n = redis.call('INCR', KEYS[2]) if n % 3 == 0 then redis.call('SET', KEYS[1], ARGV[1]) end
	 return {n, redis.call('GET', KEYS[1]), redis.call('MGET', KEYS[1], KEYS[2])}`,
	`redis.call('ZADD', KEYS[3], ARGV[1], ARGV[1]) return redis.call('ZREM', KEYS[3], redis.call('GET', KEYS[2]))`,
	`local r = redis.pcall('INCR', KEYS[3]) redis.call('SET', KEYS[1], 1) return r.err or r`,
	`redis.pcall('SUBSCRIBE', 'c') redis.call('INCR', KEYS[2]) return redis.call('HGET', KEYS[2], 'f')`,
	`redis.call('SELECT', 1) return redis.call('INCR', KEYS[2])`,
}

// A scripted is a server in memory, of which a test sends scripts and sees the commands.
type scripted struct {
	*miniredis.Miniredis
	remembered *backend.Scripts
	peer       *server.Peer
	replies    bytes.Buffer
	seen       []string
}

func newScripted(t *testing.T, remembered *backend.Scripts) *scripted {
	s := &scripted{Miniredis: backend.Memory(), remembered: remembered}
	t.Cleanup(s.Close)
	s.peer = server.NewPeer(bufio.NewWriter(&s.replies))
	s.Server().SetPreHook(remembered.Hook(s.Server(), func(cmd string, _ []string) {
		s.seen = append(s.seen, cmd)
	}))
	return s
}

// do sends a command and returns the reply. A connection that is not free has
// its scripts run.
func (s *scripted) do(free bool, command ...string) string {
	s.replies.Reset()
	s.seen = nil
	s.remembered.Dispatch(s.Server(), s.peer, command, free)
	s.peer.Flush()
	return s.replies.String()
}

func (s *scripted) run(free bool, script, arg string) string {
	s.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)),
		[]string{"SCRIPT", "LOAD", script})
	if arg == "1" {
		return s.do(free, "EVAL", script, "3", "a", "b", "z", arg)
	}
	sha := sha1.Sum([]byte(script))
	return s.do(free, "EVALSHA", hex.EncodeToString(sha[:]), "3", "a", "b", "z", arg)
}

// queued is run, or run in a transaction: in one, nothing is remembered.
func (s *scripted) queued(queues, free bool, script, arg string) string {
	if !queues {
		return s.run(free, script, arg)
	}
	s.do(true, "MULTI")
	return s.run(false, script, arg) + s.do(true, "EXEC")
}

func TestRememberedScriptsDoWhatLuaDoes(t *testing.T) {
	t.Parallel()
	remembered := &backend.Scripts{}
	seeds := uint64(40)
	if testkit.Long() {
		seeds = 400
	}

	for _, hello := range []string{"2", "3"} {
		// each begins with an empty server, and with what the others have taught
		for seed := range seeds {
			random := rand.New(rand.NewPCG(seed, 0))
			one, other := newScripted(t, remembered), newScripted(t, &backend.Scripts{})
			one.do(true, "HELLO", hello)
			other.do(true, "HELLO", hello)

			for range 12 {
				script := scripts[random.IntN(len(scripts))]
				arg := strconv.Itoa(random.IntN(3))
				queues := random.IntN(4) == 0

				got := one.queued(queues, true, script, arg)
				want := other.queued(queues, false, script, arg)
				if got != want || one.Dump() != other.Dump() {
					t.Fatalf("seed %d: %s with %s answers %q and leaves\n%s\nLua: %q\n%s",
						seed, script, arg, got, one.Dump(), want, other.Dump())
				}
			}
		}
	}
}

func TestScriptsAreRunOnce(t *testing.T) {
	once := newScripted(t, &backend.Scripts{})
	for _, c := range []struct {
		script string
		// At the first run, where each command of Lua's is seen twice, and at
		// two later ones.
		sees [3]string
	}{
		{`return redis.call('GET', KEYS[1])`, [3]string{"EVALSHA GET GET", "GET", "GET"}},
		// With other replies each time.
		{`return redis.call('INCR', KEYS[2])`,
			[3]string{"EVALSHA INCR INCR", "INCR EVALSHA INCR", "INCR EVALSHA INCR"}},
		{`math.random() return redis.call('GET', KEYS[1])`,
			[3]string{"EVALSHA GET", "EVALSHA GET", "EVALSHA GET"}},
	} {
		for i, want := range c.sees {
			once.run(true, c.script, "x")
			if got := strings.Join(once.seen, " "); got != want {
				t.Errorf("run %d of %s executes %s, want %s", i+1, c.script, got, want)
			}
		}
	}

	// One that is sent whole is remembered as soon as the server has it, and is itself seen.
	whole := `return redis.call('GET', KEYS[1])`
	once = newScripted(t, &backend.Scripts{})
	for i, want := range []string{"EVAL GET", "EVAL GET GET", "EVAL GET", "EVAL GET"} {
		once.do(true, "EVAL", whole, "1", "a")
		if got := strings.Join(once.seen, " "); got != want {
			t.Errorf("run %d of a script that is sent whole executes %s, want %s", i+1, got, want)
		}
	}

	gone := newScripted(t, &backend.Scripts{})
	gone.run(true, scripts[0], "x")
	gone.do(true, "SCRIPT", "FLUSH")
	sha := sha1.Sum([]byte(scripts[0]))
	reply := gone.do(true, "EVALSHA", hex.EncodeToString(sha[:]), "3", "a", "b", "z", "x")
	if !strings.HasPrefix(reply, "-NOSCRIPT") {
		t.Errorf("a script that is gone answers %q", reply)
	}
}
