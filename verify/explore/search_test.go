package explore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
)

// pushes is a program of two clients that append their letter several times to a
// key of their own, or to one that they share. Harm is done if what stands there at
// the end is what it must not be.
func pushes(times int, shared bool, never string) Program {
	return pushesBy(times, shared, never,
		func(ctx context.Context, conn *redisconn.Conn, key, letter string) error {
			return conn.Append(ctx, key, letter).Err()
		})
}

// A push appends a letter to a key.
type push func(ctx context.Context, conn *redisconn.Conn, key, letter string) error

func pushesBy(times int, shared bool, never string, push push) Program {
	return Program{Name: "pushes", Subject: "letters", Begin: func(*Server) *Trial {
		trial := &Trial{Judge: func(s *Server) []verify.Violation {
			return planted(never != "" && strings.Contains(s.Do("GET", "shared"), never), never)
		}}

		for _, letter := range []string{"A", "B"} {
			key := letter
			if shared {
				key = "shared"
			}
			do := connected(func(ctx context.Context, conn *redisconn.Conn) string {
				for range times {
					if err := push(ctx, conn, key, letter); err != nil {
						return err.Error()
					}
				}
				return ""
			})
			trial.Clients = append(trial.Clients, Client{letter, do})
		}
		return trial
	}}
}

// noHarm is the Judge of a trial in which nothing can go wrong.
func noHarm(*Server) []verify.Violation { return nil }

// planted is a harm that has been done if found, and none otherwise.
func planted(found bool, text string) []verify.Violation {
	if !found {
		return nil
	}
	return []verify.Violation{{Harm: "planted", Text: text}}
}

// connected is a client with a connection of its own.
func connected(
	do func(context.Context, *redisconn.Conn) string,
) func(context.Context, *Session) string {
	return connectedTo(-1, do)
}

// connectedTo is connected to a server of the locks, from 0; below 0: the market's.
func connectedTo(
	n int, do func(context.Context, *redisconn.Conn) string,
) func(context.Context, *Session) string {
	return func(ctx context.Context, s *Session) string {
		addr := ""
		if n >= 0 {
			addr = s.LockServers()[n]
		}

		connect := func(ctx context.Context) (net.Conn, error) { return s.Connect(ctx, "", addr) }
		conn, err := redisconn.Over(connect).WithReplyTimeout(s.ReplyTimeout()).Dial(ctx)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return do(ctx, conn)
	}
}

// searched runs a search, and returns why it concludes nothing.
func searched(t *testing.T, p Program, b Bounds) (*Report, error) {
	t.Helper()
	e := newExplorer(p, b)
	e.silence = 2 * time.Second
	return e.search(t.Context())
}

// Run is Search for a test that fails if nothing can be concluded.
func Run(t *testing.T, p Program, b Bounds) *Report {
	t.Helper()
	r, err := Search(t.Context(), p, b)
	if err != nil {
		t.Fatalf("explore %s, %s: %v", p.Subject, p.Name, err)
	}
	return r
}

// SearchesAll says that searches that take long are made, too.
func SearchesAll() bool { return os.Getenv("MARKETSIM_EXPLORE") != "" }

func choose(n, k int) int {
	c := 1
	for i := range k {
		c = c * (n - i) / (i + 1)
	}
	return c
}

// A search that ran out of time, of its own or of its context, says so and what it has found
// by then. A harm is told of at once.
func TestTime(t *testing.T) {
	p := pushes(4, true, "AAAABBBB")
	b := Bounds{Preemptions: Unbounded, Exhaustive: true}
	var told []Found
	p.OnFound = func(f Found) { told = append(told, f) }
	whole := Run(t, p, b)
	if whole.Stopped != "" || !whole.Complete || whole.Left > 0 ||
		len(told) != 1 || told[0].Harm != "planted" {

		t.Errorf("%s\ntold of %v", whole, told)
	}

	b.Time = time.Nanosecond
	short := Run(t, p, b)
	if short.Stopped != search.OutOfTime || short.Complete ||
		short.Schedules >= whole.Schedules || short.Left == 0 {

		t.Error(short)
	}
	if !strings.Contains(short.Bound(), "harm in 1 of 1 schedule") ||
		len(short.Found) != 1 || len(told) != 2 {

		t.Errorf("%s\ntold of %v", short, told)
	}

	const soFar = "1 schedule so far, with 0 preemptions and 0 faults; harm: planted; "
	if line := short.Progress(); !strings.HasPrefix(line, soFar) {
		t.Errorf("progress: %s", line)
	}

	b.Time = -1
	_, err := Search(t.Context(), p, b)
	if err == nil || !strings.Contains(err.Error(), "cannot be below 0") {
		t.Errorf("a time below 0: %v", err)
	}

	b.Time = time.Hour
	ctx, cancel := context.WithTimeoutCause(t.Context(), 1, errors.New("whoever waits"))
	defer cancel()
	if r, err := Search(ctx, p, b); err != nil || r.Stopped != "whoever waits" || r.Complete {
		t.Errorf("%s, %v", r, err)
	}
}

// Two clients of k requests for one key have 2·C(k−1,⌊p/2⌋)·C(k−1,⌈p/2⌉) schedules
// with p preemptions, and one if they share no key. Source: an interleaving of a
// and b blocks has a+b−2 preemptions, because the last of its a+b−1 switches comes
// when the other client has ended.
func TestCounts(t *testing.T) {
	for k := 1; k <= 4; k++ {
		sum := 0
		for p := 0; p <= 2*k; p++ {
			if p/2 <= k-1 && (p+1)/2 <= k-1 {
				sum += 2 * choose(k-1, p/2) * choose(k-1, (p+1)/2)
			}

			r := Run(t, pushes(k, true, ""), Bounds{Preemptions: p})
			if r.Schedules != sum {
				t.Errorf("%d requests each, at most %d preemptions: %d schedules, want %d",
					k, p, r.Schedules, sum)
			}
			unreduced := Bounds{Preemptions: p, Unreduced: true}
			if r := Run(t, pushes(k, false, ""), unreduced); r.Schedules != sum {
				t.Errorf("%d requests each for keys of their own, unreduced: %d schedules, want %d",
					k, r.Schedules, sum)
			}
		}

		if sum != choose(2*k, k) {
			t.Errorf("%d requests each: %d schedules in all, want %d", k, sum, choose(2*k, k))
		}
		if r := Run(t, pushes(k, false, ""), Bounds{Preemptions: 1}); r.Schedules != 1 {
			t.Errorf("%d requests each for keys of their own: %d schedules, want 1", k, r.Schedules)
		}
	}
}

// What goes wrong in one interleaving only is found with as many preemptions as
// that takes, and not with fewer.
func TestPlanted(t *testing.T) {
	for depth, never := range map[int]string{1: "ABBBAA", 2: "AABABB", 3: "ABABBA"} {
		if r := Run(t, pushes(3, true, never), Bounds{Preemptions: depth - 1}); len(r.Found) > 0 {
			t.Errorf("%s is found with %d preemptions", never, r.Found[0].Preemptions)
		}
		r := Run(t, pushes(3, true, never), Bounds{Preemptions: 4})
		if len(r.Found) != 1 || r.Found[0].Preemptions != depth || r.Harmful != 1 {
			t.Errorf("%s: found %+v, %d harmful schedules, want one with %d preemptions",
				never, r.Found, r.Harmful, depth)
		}
	}
}

// However a command comes to the server, it is executed, and seen to conflict.
func TestConflicts(t *testing.T) {
	const script = `return redis.call('APPEND', KEYS[1], ARGV[1])`
	for name, way := range map[string]struct {
		never string
		push  push
	}{
		"a script": {"ABBA", func(ctx context.Context, conn *redisconn.Conn, key, letter string) error {
			return redis.NewScript(script).Run(ctx, conn, []string{key}, letter).Err()
		}},
		"a script that is loaded, in a transaction and again": {
			"AABBBBAA",
			func(ctx context.Context, conn *redisconn.Conn, key, letter string) error {
				sha := conn.ScriptLoad(ctx, script).Val()
				_, err := conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
					return p.EvalSha(ctx, sha, []string{key}, letter).Err()
				})
				return errors.Join(err, conn.EvalSha(ctx, sha, []string{key}, letter).Err())
			},
		},
		"a transaction in pieces": {"ABBA", func(
			ctx context.Context, conn *redisconn.Conn, key, letter string) error {

			return errors.Join(
				conn.Do(ctx, "MULTI").Err(),
				conn.Do(ctx, "APPEND", key, letter).Err(),
				conn.Do(ctx, "EXEC").Err(),
			)
		}},
	} {
		r := Run(t, pushesBy(2, true, way.never, way.push), Bounds{Preemptions: 1})
		if len(r.Found) != 1 || r.Preemptions != 1 {
			t.Errorf("%s: %s", name, r)
		}
	}
}

// Each schedule that the search plays can be replayed, also if a client pauses
// before a request that is delivered at once while another client was chosen
// last. A appends to a shared key. B sets a key of its own, waits, reads it, and
// appends to the shared key, too.
func TestReplayOfEachSchedule(t *testing.T) {
	p := Program{Name: "aside", Subject: "own", Begin: func(*Server) *Trial {
		client := func(name string, do func(context.Context, *redisconn.Conn)) Client {
			return Client{name, connected(func(ctx context.Context, conn *redisconn.Conn) string {
				do(ctx, conn)
				return fmt.Sprint(conn.Append(ctx, "shared", name).Err())
			})}
		}

		return &Trial{Judge: noHarm, Clients: []Client{
			client("A", func(ctx context.Context, conn *redisconn.Conn) {
				for range 4 {
					_ = conn.Append(ctx, "shared", "A").Err()
				}
			}),
			client("B", func(ctx context.Context, conn *redisconn.Conn) {
				_ = conn.Set(ctx, "own", "B", 0).Err()
				time.Sleep(time.Microsecond)
				_ = conn.Get(ctx, "own").Err()
			}),
		}}
	}}

	schedules := 60
	if SearchesAll() {
		schedules = 200
	}

	var tokens []string
	e := newExplorer(p, Bounds{Preemptions: 2, Faults: 1, Exhaustive: true})
	source := rand.New(rand.NewPCG(1, 2))
	err := e.afterFirst(func() error {
		_, err := e.drive(t.Context()) // it has learned then
		for len(tokens) < schedules && err == nil {
			var w *world
			w, _, err = e.schedule(func(p search.ChoicePoint) (search.Choice, error) {
				return p.Options[source.IntN(len(p.Options))], nil
			})
			tokens = append(tokens, search.Token(p.named(), w.steps))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, token := range tokens {
		if _, err := Replay(t.Context(), p, token); err != nil {
			t.Fatalf("token %s: %v", token, err)
		}
	}
}

// one is a program with one client.
func one(do func(ctx context.Context, s *Session) string) Program {
	return Program{Name: "one", Subject: "own", Begin: func(*Server) *Trial {
		return &Trial{Judge: noHarm, Clients: []Client{{"A", do}}}
	}}
}

func neverEnds() { select {} }

// If nothing can be concluded, a sentence says why, and names what a client has
// left behind, with its stack.
func TestNothingIsConcluded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()

	// Counted across the schedules, so that one program does not do the same in each.
	runs := 0

	asks := func(command ...any) Program {
		return one(connected(func(ctx context.Context, conn *redisconn.Conn) string {
			return fmt.Sprint(conn.Do(ctx, command...).Err())
		}))
	}

	for name, test := range map[string]struct {
		program Program
		bounds  Bounds
		want    string
	}{
		"bounds below 0": {pushes(1, true, ""), Bounds{Faults: -1}, "none can be below 0"},
		"another point": {one(connected(func(ctx context.Context, conn *redisconn.Conn) string {
			runs++
			return fmt.Sprint(conn.Set(ctx, strings.Repeat("x", runs%19), "", 0).Err())
		})), Bounds{Faults: 1}, "do not lead to the same points"},
		"never returns": {one(func(context.Context, *Session) string {
			select {}
		}), Bounds{}, "never returns"},
		"leaves a goroutine": {one(func(context.Context, *Session) string {
			go neverEnds()
			return ""
		}), Bounds{}, "explore.neverEnds"},
		"connects by itself": {one(func(context.Context, *Session) string {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			return err.Error()
		}), Bounds{}, "net.(*conn).Read"},
		"waits in the server": {asks("BLMPOP", 1, 1, "queue", "LEFT"), Bounds{}, "BLMPOP, or waits in it"},
		"unknown command":     {asks("DELIFEQ", "a", "b"), Bounds{}, "does not know the command DELIFEQ"},
		"keyspace events":     {asks("SUBSCRIBE", "__keyspace@0__:a"), Bounds{}, "subscribe __keyspace@0__:a"},
		"holds a mutex": {one(func(context.Context, *Session) string {
			var mu sync.Mutex
			mu.Lock()
			time.AfterFunc(time.Second, mu.Lock)
			time.Sleep(2 * time.Second)
			return ""
		}), Bounds{}, "sync.Mutex"},
		"dials without end": {one(func(_ context.Context, s *Session) string {
			for {
				_, _ = s.Connect(context.Background(), "", "")
				time.Sleep(time.Second)
			}
		}), Bounds{}, "never returns"},
		"nothing to see": {func() Program {
			p := pushes(1, true, "")
			begin := p.Begin
			p.Begin = func(s *Server) *Trial {
				trial := begin(s)
				trial.Vacuous = func() error {
					return errors.New("nothing was traded")
				}
				return trial
			}
			return p
		}(), Bounds{}, "nothing was traded"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := searched(t, test.program, test.bounds)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the search ends with %v, want %q", err, test.want)
			}
		})
	}
}

// A client that draws delays which nobody can seed is judged all the same. The report
// says at how many points a choice was not tried.
func TestChance(t *testing.T) {
	runs := 0
	draws := connected(func(ctx context.Context, conn *redisconn.Conn) string {
		for range 30 {
			_ = conn.Incr(ctx, "same").Err()

		}
		runs++
		if runs%50 == 0 {
			_ = conn.Incr(ctx, "now and then").Err()
		}
		return ""
	})

	r, err := searched(t, one(draws), Bounds{Faults: 1})
	if err != nil || len(r.Found) > 0 {
		t.Error(err, r)
	}

	bound := (&Report{Lost: 2, Points: 40}).Bound()
	if !strings.Contains(bound, "except below 2 points of 40") {
		t.Error(bound)
	}
}

// Real time may change two things in a request: the rest of a time-out that a script
// is told, and a client's clock.
func TestAlike(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"evalsha x 1 lock 1000 699", "evalsha x 1 lock 1000 690", true},
		{"evalsha x 1 lock 1000 699", "evalsha x 1 lock 1000 399", false},
		{"evalsha x 1 lock 1000 699", "evalsha x 1 lock 1000", false},
		{"hset users:1 funds 140", "hset users:1 funds 180", false},
		{"getset lock 1700000000123", "getset lock 1700000000124", true},
	} {
		if alike(c.a, c.b) != c.same {
			t.Errorf("%q and %q: alike should be %t", c.a, c.b, c.same)
		}
	}
}
