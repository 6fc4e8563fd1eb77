package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/verify"
)

// pushes is a program of two clients that append their letter so many times to a key of their own, or to one that they
// share. Harm is done if what stands there at the end is what it must not be.
func pushes(times int, shared bool, never string) Program {
	return pushesBy(times, shared, never, func(ctx context.Context, conn *backend.Conn, key, letter string) error {
		return conn.Append(ctx, key, letter).Err()
	})
}

// A push appends a letter to a key.
type push func(ctx context.Context, conn *backend.Conn, key, letter string) error

func pushesBy(times int, shared bool, never string, push push) Program {
	return Program{Name: "pushes", Subject: "letters", Begin: func(*Server) *Trial {
		trial := &Trial{Judge: func(s *Server) []verify.Violation {
			if never != "" && strings.Contains(s.Do("GET", "shared"), never) {
				return []verify.Violation{{Harm: "planted", Text: never}}
			}
			return nil
		}}
		for _, letter := range []string{"A", "B"} {
			trial.Clients = append(trial.Clients, Client{letter, func(ctx context.Context, s *Session) string {
				conn, err := s.Dial(ctx)
				if err != nil {
					return err.Error()
				}
				defer conn.Close()
				key := letter
				if shared {
					key = "shared"
				}
				for range times {
					if err := push(ctx, conn, key, letter); err != nil {
						return err.Error()
					}
				}
				return ""
			}})
		}
		return trial
	}}
}

// searched runs a search, and returns why it concludes nothing.
func searched(t *testing.T, p Program, b Bounds) (*Report, error) {
	t.Helper()
	s := newSearch(t, p, b)
	s.silence = 2 * time.Second
	return &s.Report, s.guarded(s.run)
}

// Run is Search for whom it is a failure where nothing can be concluded.
func Run(t *testing.T, p Program, b Bounds) *Report {
	t.Helper()
	r, err := Search(t, p, b)
	if err != nil {
		t.Fatalf("explore %s, %s: %v", p.Subject, p.Name, err)
	}
	return r
}

func choose(n, k int) int {
	c := 1
	for i := range k {
		c = c * (n - i) / (i + 1)
	}
	return c
}

// Two clients of k requests for one key have 2·C(k−1,⌊p/2⌋)·C(k−1,⌈p/2⌉) schedules with p preemptions,
// and one where they share none. Source: an interleaving of a and b blocks has a+b−2 preemptions, because
// the last switch is to whom the other leaves alone.
func TestCounts(t *testing.T) {
	for k := 1; k <= 4; k++ {
		sum := 0
		for p := 0; p <= 2*k; p++ {
			if p/2 <= k-1 && (p+1)/2 <= k-1 {
				sum += 2 * choose(k-1, p/2) * choose(k-1, (p+1)/2)
			}
			r := Run(t, pushes(k, true, ""), Bounds{Preemptions: p})
			if r.Schedules != sum {
				t.Errorf("%d requests each, at most %d preemptions: %d schedules, want %d", k, p, r.Schedules, sum)
			}
			if r := Run(t, pushes(k, false, ""), Bounds{Preemptions: p, Unreduced: true}); r.Schedules != sum {
				t.Errorf("%d requests each for keys of their own, unreduced: %d schedules, want %d", k, r.Schedules, sum)
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

// What goes wrong in one interleaving only is found with as many preemptions as that takes, and not with fewer.
func TestPlanted(t *testing.T) {
	for depth, never := range map[int]string{1: "ABBBAA", 2: "AABABB", 3: "ABABBA"} {
		if r := Run(t, pushes(3, true, never), Bounds{Preemptions: depth - 1}); len(r.Found) > 0 {
			t.Errorf("%s is found with %d preemptions", never, r.Found[0].Preemptions)
		}
		r := Run(t, pushes(3, true, never), Bounds{Preemptions: 4})
		if len(r.Found) != 1 || r.Found[0].Preemptions != depth || r.Harmful != 1 {
			t.Errorf("%s: found %+v, %d harmful schedules, want one with %d preemptions", never, r.Found, r.Harmful, depth)
		}
	}
}

// late is a program in which A appends two letters, each over a connection of its own, and B two with 6 s between, so
// that A gives a late one up in between. Harm is done if what stands there at the end is what it must not be.
func late(never string) Program {
	p := pushesBy(1, true, never, func(ctx context.Context, conn *backend.Conn, key, letter string) error {
		if letter == "A" {
			_ = conn.Append(ctx, key, "A").Err()
			return conn.Append(ctx, key, "a").Err()
		}
		err := conn.Append(ctx, key, "B").Err()
		time.Sleep(6 * time.Second)
		return errors.Join(err, conn.Append(ctx, key, "b").Err())
	})
	p.Name = "late"
	return p
}

// A late request may come at any time after its client has given up: at once, after what its client did then, after
// what others did, and never; two of them in any order.
func TestLate(t *testing.T) {
	for never, faults := range map[string]int{"BaAb": 1, "BabA": 1, "BbaA": 2, "BbAa": 2, "BabAA": -1} {
		r := Run(t, late(never), Bounds{Preemptions: 1, Faults: 2, Of: []Fault{Late}})
		switch {
		case faults < 0 && len(r.Found) > 0, faults > 0 && len(r.Found) == 0:
			t.Errorf("%s: %s", never, r)
		case faults > 0 && r.Found[0].Faults != faults:
			t.Errorf("%s: want %d faults\n%s", never, faults, r)
		}
	}
}

// A late request stays late while all others wait, which is a preemption: A's second letter comes before any of B.
func TestStaysLate(t *testing.T) {
	for preemptions, want := range []int{0, 1} {
		r := Run(t, late("\naAb"), Bounds{Preemptions: preemptions, Faults: 1, Of: []Fault{Late}})
		if len(r.Found) != want {
			t.Errorf("with %d preemptions: %s", preemptions, r)
		}
	}
}

// What follows a late request on its connection does not overtake it.
func TestLateHoldsItsConnection(t *testing.T) {
	overtaken := func(s *Server) []verify.Violation {
		if is := s.Do("GET", "shared"); strings.HasSuffix(is, "\n2\r\n") || strings.HasSuffix(is, "\n21\r\n") {
			return []verify.Violation{{Harm: "planted", Text: "the second came first: " + is}}
		}
		return nil
	}
	p := Program{Name: "two", Subject: "letters", Begin: func(*Server) *Trial {
		do := func(ctx context.Context, s *Session) string {
			conn, err := s.connect(ctx, 0)
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			for _, digit := range []string{"1", "2"} {
				_, err = io.WriteString(conn, "*3\r\n$6\r\nappend\r\n$6\r\nshared\r\n$1\r\n"+digit+"\r\n")
				if err != nil {
					return err.Error()
				}
			}
			time.Sleep(time.Second)
			return ""
		}
		return &Trial{Clients: []Client{{"A", do}}, Judge: overtaken}
	}}
	if r := Run(t, p, Bounds{Faults: 1, Of: []Fault{Late}}); len(r.Found) > 0 || r.Schedules < 3 {
		t.Error(r)
	}
}

// pipelined is a program in which A sends three letters in one pipeline, and B two by themselves.
func pipelined(never string) Program {
	p := pushesBy(1, true, never, func(ctx context.Context, conn *backend.Conn, key, letter string) error {
		if letter == "B" {
			return errors.Join(conn.Append(ctx, key, "x").Err(), conn.Append(ctx, key, "y").Err())
		}
		_, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, text := range []string{"1", "2", "3"} {
				p.Append(ctx, key, text)
			}
			return nil
		})
		return err
	})
	p.Name = "pipelined"
	return p
}

// Between two commands of a pipeline another's may come, or a cut: each division is a fault.
func TestSplit(t *testing.T) {
	for never, faults := range map[string]int{"1x23": 1, "12x3": 1, "1x2y3": 2, "132": -1} {
		r := Run(t, pipelined(never), Bounds{Preemptions: 3, Faults: 2, Of: []Fault{Split}})
		switch {
		case faults < 0 && len(r.Found) > 0, faults > 0 && len(r.Found) == 0:
			t.Errorf("%s: %s", never, r)
		case faults > 0 && r.Found[0].Faults != faults:
			t.Errorf("%s: want %d faults\n%s", never, faults, r)
		}
	}
	cut := pipelined("")
	began := cut.Begin
	cut.Begin = func(s *Server) *Trial {
		trial := began(s)
		trial.Judge = func(s *Server) []verify.Violation {
			if is := s.Do("GET", "shared"); strings.Contains(is, "12") && !strings.Contains(is, "3") {
				return []verify.Violation{{Harm: "planted", Text: is}}
			}
			return nil
		}
		return trial
	}
	if r := Run(t, cut, Bounds{Faults: 1, Of: []Fault{Split}}); len(r.Found) != 1 || r.Found[0].Preemptions != 0 {
		t.Errorf("a pipeline that is cut in the middle: %s", r)
	}
}

// MULTI to EXEC stays whole, also in the middle of a pipeline.
func TestSplitLeavesTransactionsWhole(t *testing.T) {
	r := request{conn: &conn{}, commands: [][]string{{"get"}, {"multi"}, {"set"}, {"exec"}, {"get"}}}
	if after := r.splits(); !slices.Equal(after, []int{1, 4}) {
		t.Errorf("it may be divided after %v commands", after)
	}
}

// A client library that sends again after a broken connection does so here, too: what is lost before it was executed is
// executed once, and what was executed twice.
func TestClientsSendAgain(t *testing.T) {
	for fault, want := range map[Fault]string{Lose: "AA", Drop: "A"} {
		p := Program{Name: "again", Subject: "go-redis", Begin: func(*Server) *Trial {
			do := func(ctx context.Context, s *Session) string {
				dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return s.connect(ctx, 0) }
				rdb := redis.NewClient(&redis.Options{Dialer: dial, MaxRetries: 1, DisableIdentity: true})
				defer rdb.Close()
				return rdb.Append(ctx, "shared", "A").String()
			}
			return &Trial{Clients: []Client{{"A", do}}, Judge: func(s *Server) []verify.Violation {
				if is := s.Do("GET", "shared"); strings.HasSuffix(is, "\n"+want+"\r\n") {
					return []verify.Violation{{Harm: "planted", Text: is}}
				}
				return nil
			}}
		}}
		r := Run(t, p, Bounds{Faults: 1, Of: []Fault{fault}, Goes: true})
		if len(r.Found) != 1 || fault == Lose && r.Found[0].Faults != 1 {
			t.Errorf("%s: %s", fault, r)
		}
	}
}

// A clock that a client reads may step, and one that nobody reads does not.
func TestClockSteps(t *testing.T) {
	for reads, found := range map[bool]int{true: 1, false: 0} {
		p := Program{Name: "clock", Subject: "clock", Begin: func(*Server) *Trial {
			var passed time.Duration
			do := func(ctx context.Context, s *Session) string {
				conn, err := s.Dial(ctx)
				if err != nil {
					return err.Error()
				}
				defer conn.Close()
				now := time.Now
				if reads {
					now = s.Now
				}
				before := now()
				_ = conn.Get(ctx, "a").Err()
				_ = conn.Get(ctx, "b").Err()
				passed = now().Sub(before)
				return ""
			}
			return &Trial{Clients: []Client{{"A", do}}, Judge: func(*Server) []verify.Violation {
				if passed < 0 {
					return []verify.Violation{{Harm: "planted", Text: "time has gone back"}}
				}
				return nil
			}}
		}}
		if r := Run(t, p, Bounds{Faults: 1, Of: []Fault{Clock}}); len(r.Found) != found {
			t.Errorf("read: %t: %s", reads, r)
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
		"a script": {"ABBA", func(ctx context.Context, conn *backend.Conn, key, letter string) error {
			return redis.NewScript(script).Run(ctx, conn, []string{key}, letter).Err()
		}},
		"a script that is loaded, in a transaction and again": {
			"AABBBBAA",
			func(ctx context.Context, conn *backend.Conn, key, letter string) error {
				sha := conn.ScriptLoad(ctx, script).Val()
				_, err := conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
					return p.EvalSha(ctx, sha, []string{key}, letter).Err()
				})
				return errors.Join(err, conn.EvalSha(ctx, sha, []string{key}, letter).Err())
			},
		},
		"a transaction in pieces": {"ABBA", func(ctx context.Context, conn *backend.Conn, key, letter string) error {
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

// reads is a program of two clients that share no key: one sets a key of its own on the server of the locks, and reads
// it. Harm is done if it is gone then.
func reads(expiry time.Duration, servers int) Program {
	return Program{Name: "reads", Subject: "own", LockServers: servers, Begin: func(*Server) *Trial {
		gone := false
		do := func(name string) Client {
			return Client{name, func(ctx context.Context, s *Session) string {
				conn, err := backend.DialOver(ctx, s.ConnectLocks(servers-1))
				if err != nil {
					return err.Error()
				}
				defer conn.Close()
				set := conn.Set(ctx, name, "set", expiry).Err()
				gone = gone || set == nil && errors.Is(conn.Get(ctx, name).Err(), redis.Nil)
				return ""
			}}
		}
		return &Trial{Clients: []Client{do("A"), do("B")}, Judge: func(*Server) []verify.Violation {
			if gone {
				return []verify.Violation{{Harm: "gone", Text: "what was set is gone"}}
			}
			return nil
		}}
	}}
}

// Time and servers conflict with every request, also with one that conflicts with no other client's.
func TestFaultsAreNotReduced(t *testing.T) {
	for fault, expiry := range map[Fault]time.Duration{Pause: Lease / 2, Empty: 0, Behind: 0, ServerClock: Lease} {
		servers := 1
		if fault == ServerClock {
			servers = 3
		}
		r := Run(t, reads(expiry, servers), Bounds{Faults: 1, Of: []Fault{fault}})
		if len(r.Found) != 1 || r.Found[0].Harm != "gone" {
			t.Errorf("%s: %s", fault, r)
			continue
		}
		d, err := Replay(t, reads(expiry, servers), r.Found[0].Token)
		if err != nil || !strings.Contains(d.String(), "Harm: gone: what was set is gone") {
			t.Errorf("%s: token %s plays %v\n%s", fault, r.Found[0].Token, err, d)
		}
	}
}

// What happens to one of several servers happens to no other: not a start without data, nor a conflict of keys.
func TestSeveralServers(t *testing.T) {
	all := Bounds{Preemptions: 1, Faults: 1, Of: []Fault{Empty}, Goes: true}
	if r := Run(t, reads(0, 3), all); len(r.Found) != 1 || !strings.Contains(r.Found[0].Token, "empty3") {
		t.Errorf("want harm where the third starts empty, and none elsewhere: %s", r)
	}
	p := Program{Name: "apart", Subject: "own", LockServers: 2, Begin: func(*Server) *Trial {
		do := func(n int) Client {
			return Client{"ABC"[n : n+1], func(ctx context.Context, s *Session) string {
				conn, err := backend.DialOver(ctx, s.ConnectLocks(n))
				if err != nil {
					return err.Error()
				}
				defer conn.Close()
				return fmt.Sprint(conn.Incr(ctx, "key").Err(), conn.Incr(ctx, "key").Err())
			}}
		}
		return &Trial{Clients: []Client{do(0), do(1)}, Judge: func(*Server) []verify.Violation { return nil }}
	}}
	if r := Run(t, p, Bounds{Preemptions: 2}); r.Schedules != 1 {
		t.Errorf("one key at two servers conflicts with itself: %s", r)
	}
}

// Each kind of fault happens once.
func TestOnce(t *testing.T) {
	twice := Bounds{Faults: 2, Of: []Fault{Drop}, Goes: true}
	once := twice
	once.Once = true
	two, one := Run(t, pushes(3, true, ""), twice), Run(t, pushes(3, true, ""), once)
	twice.Faults = 1
	if again := Run(t, pushes(3, true, ""), twice); one.Schedules != again.Schedules || two.Schedules <= one.Schedules {
		t.Errorf("%d schedules with two faults, %d with one of a kind, %d with one",
			two.Schedules, one.Schedules, again.Schedules)
	}
}

// Each schedule that the search plays can be played again, also where a client pauses before a request that is
// delivered at once while another one was chosen last: A appends to what both share, and B, too, after it has set a
// key of its own, and waited.
func TestReplayOfEachSchedule(t *testing.T) {
	p := Program{Name: "aside", Subject: "own", Begin: func(*Server) *Trial {
		client := func(name string, do func(context.Context, *backend.Conn)) Client {
			return Client{name, func(ctx context.Context, s *Session) string {
				if conn, err := s.Dial(ctx); err == nil {
					defer conn.Close()
					do(ctx, conn)
					_ = conn.Append(ctx, "shared", name).Err()
				}
				return ""
			}}
		}
		return &Trial{Judge: func(*Server) []verify.Violation { return nil }, Clients: []Client{
			client("A", func(ctx context.Context, conn *backend.Conn) {
				for range 4 {
					_ = conn.Append(ctx, "shared", "A").Err()
				}
			}),
			client("B", func(ctx context.Context, conn *backend.Conn) {
				_ = conn.Set(ctx, "own", "B", 0).Err()
				time.Sleep(2 * tick)
				_ = conn.Get(ctx, "own").Err()
			}),
		}}
	}}
	var tokens []string
	s, source := newSearch(t, p, Bounds{Preemptions: 2, Faults: 1, Goes: true}), rand.New(rand.NewPCG(1, 2))
	if err := s.guarded(func() error {
		err := s.run() // it has learned then
		for len(tokens) < 200 && err == nil {
			var w *world
			w, _, err = s.schedule(func(_ *world, options []choice) (choice, error) {
				return options[source.IntN(len(options))], nil
			})
			tokens = append(tokens, written(p, w.steps))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if _, err := Replay(t, p, token); err != nil {
			t.Fatalf("token %s: %v", token, err)
		}
	}
}

// one is a program with one client.
func one(do func(ctx context.Context, s *Session) string) Program {
	return Program{Name: "one", Subject: "own", Begin: func(*Server) *Trial {
		return &Trial{Judge: func(*Server) []verify.Violation { return nil }, Clients: []Client{{"A", do}}}
	}}
}

// Where nothing can be concluded, a sentence says why.
func TestNothingIsConcluded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	runs := 0
	for name, test := range map[string]struct {
		program Program
		bounds  Bounds
		want    string
	}{
		"bounds below 0": {pushes(1, true, ""), Bounds{Faults: -1}, "none can be below 0"},
		"another point": {one(func(ctx context.Context, s *Session) string {
			conn, err := s.Dial(ctx)
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			runs++
			_ = conn.Set(ctx, "runs", runs, 0).Err()
			return ""
		}), Bounds{Faults: 1}, "step 1 came at"},
		"never returns": {one(func(context.Context, *Session) string { select {} }), Bounds{}, "never returns"},
		"leaves a goroutine": {one(func(context.Context, *Session) string {
			go func() { select {} }()
			return ""
		}), Bounds{}, "left goroutines behind"},
		"connects by itself": {one(func(context.Context, *Session) string {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			return err.Error()
		}), Bounds{}, "connected by itself"},
		"waits in the server": {one(func(ctx context.Context, s *Session) string {
			conn, err := s.Dial(ctx)
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			return conn.BLPop(ctx, time.Second, "queue").Err().Error()
		}), Bounds{}, "BLPOP, or waits in it"},
		"unknown command": {one(func(ctx context.Context, s *Session) string {
			conn, err := s.Dial(ctx)
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			return conn.Do(ctx, "DELIFEQ", "a", "b").Err().Error()
		}), Bounds{}, "does not know the command DELIFEQ"},
		"nothing to see": {func() Program {
			p := pushes(1, true, "")
			begin := p.Begin
			p.Begin = func(s *Server) *Trial {
				trial := begin(s)
				trial.Plain = func() error { return errors.New("nothing was traded") }
				return trial
			}
			return p
		}(), Bounds{}, "nothing was traded"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := searched(t, test.program, test.bounds); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the search ends with %v, want %q", err, test.want)
			}
		})
	}
}

// What real time may change in a request is the rest of a time-out that a script is told, and nothing else.
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
