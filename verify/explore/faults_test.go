package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/verify"
)

// late is a program in which A appends two letters, each over a connection of its own,
// and B two with 6 s between, so that A gives a late one up in between. Harm is done if
// what stands there at the end is what it must not be.
func late(never string) Program {
	p := pushesBy(1, true, never, func(
		ctx context.Context, conn *redisconn.Conn, key, letter string,
	) error {
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

// A late request may come at any time after its client has given up: at once, after what
// its client did then, after what others did, and never; two of them in any order.
func TestLate(t *testing.T) {
	for never, faults := range map[string]int{
		"BaAb": 1, "BabA": 1, "BbaA": 2, "BbAa": 2, "BabAA": -1,
	} {
		r := Run(t, late(never), Bounds{Preemptions: 1, Faults: 2, Kinds: []Fault{Late}})
		switch {
		case faults < 0 && len(r.Found) > 0, faults > 0 && len(r.Found) == 0:
			t.Errorf("%s: %s", never, r)
		case faults > 0 && r.Found[0].Faults != faults:
			t.Errorf("%s: want %d faults\n%s", never, faults, r)
		}
	}
}

// A late request stays late while all others wait, which is a preemption: A's second
// letter comes before any of B.
func TestStaysLate(t *testing.T) {
	for preemptions, want := range []int{0, 1} {
		r := Run(t, late("\naAB"), Bounds{Preemptions: preemptions, Faults: 1, Kinds: []Fault{Late}})
		if len(r.Found) != want {
			t.Errorf("with %d preemptions: %s", preemptions, r)
		}
	}
}

// What follows a late request on its connection does not overtake it.
func TestLateHoldsItsConnection(t *testing.T) {
	overtaken := func(s *Server) []verify.Violation {
		is := s.Do("GET", "shared")
		second := strings.HasSuffix(is, "\n2\r\n") || strings.HasSuffix(is, "\n21\r\n")
		return planted(second, "the second came first: "+is)
	}

	p := Program{Name: "two", Subject: "letters", Begin: func(*Server) *Trial {
		do := func(ctx context.Context, s *Session) string {
			conn, err := s.Connect(ctx, "", "")
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

	if r := Run(t, p, Bounds{Faults: 1, Kinds: []Fault{Late}}); len(r.Found) > 0 || r.Schedules < 3 {
		t.Error(r)
	}
}

// pipelined is a program in which A sends three letters in one pipeline, and B
// two by themselves.
func pipelined(never string) Program {
	p := pushesBy(1, true, never, func(
		ctx context.Context, conn *redisconn.Conn, key, letter string,
	) error {
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

// Between two commands of a pipeline another's may come, or a cut: each
// division is a fault.
func TestSplit(t *testing.T) {
	for never, faults := range map[string]int{"1x23": 1, "12x3": 1, "1x2y3": 2, "132": -1} {
		r := Run(t, pipelined(never), Bounds{Preemptions: 3, Faults: 2, Kinds: []Fault{Split}})
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
			is := s.Do("GET", "shared")
			return planted(strings.Contains(is, "12") && !strings.Contains(is, "3"), is)
		}
		return trial
	}

	r := Run(t, cut, Bounds{Faults: 1, Kinds: []Fault{Split}})
	if len(r.Found) != 1 || r.Found[0].Preemptions != 0 {
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

// A client library that sends again after a broken connection does so here, too: what is
// lost before it was executed is executed once, and what was executed twice.
func TestClientsSendAgain(t *testing.T) {
	for fault, want := range map[Fault]string{Lose: "AA", Drop: "A"} {
		p := Program{Name: "again", Subject: "go-redis", Begin: func(*Server) *Trial {
			do := func(ctx context.Context, s *Session) string {
				options := redis.Options{Dialer: s.Connect, MaxRetries: 1, DisableIdentity: true}
				rdb := redis.NewClient(&options)
				defer rdb.Close()
				return rdb.Append(ctx, "shared", "A").String()
			}

			return &Trial{Clients: []Client{{"A", do}}, Judge: func(s *Server) []verify.Violation {
				is := s.Do("GET", "shared")
				return planted(strings.HasSuffix(is, "\n"+want+"\r\n"), is)
			}}
		}}

		r := Run(t, p, Bounds{Faults: 1, Kinds: []Fault{fault}, Exhaustive: true})
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
				now := time.Now
				if reads {
					now = s.Now
				}
				return connected(func(ctx context.Context, conn *redisconn.Conn) string {
					before := now()
					_ = conn.Get(ctx, "a").Err()
					_ = conn.Get(ctx, "b").Err()
					passed = now().Sub(before)
					return ""
				})(ctx, s)
			}

			return &Trial{Clients: []Client{{"A", do}}, Judge: func(*Server) []verify.Violation {
				return planted(passed < 0, "time has gone back")
			}}
		}}

		if r := Run(t, p, Bounds{Faults: 1, Kinds: []Fault{Clock}}); len(r.Found) != found {
			t.Errorf("read: %t: %s", reads, r)
		}
	}
}

// reads is a program of two clients that share no key: one sets a key of its own on the
// server of the locks, and reads it. Harm is done if it is gone then.
func reads(expiry time.Duration, servers int) Program {
	return Program{Name: "reads", Subject: "own", LockServers: servers, Begin: func(*Server) *Trial {
		gone := false

		do := func(name string) Client {
			return Client{name, connectedTo(servers-1, func(
				ctx context.Context, conn *redisconn.Conn,
			) string {
				set := conn.Set(ctx, name, "set", expiry).Err()
				gone = gone || set == nil && errors.Is(conn.Get(ctx, name).Err(), redis.Nil)
				return ""
			})}
		}

		return &Trial{Clients: []Client{do("A"), do("B")}, Judge: func(*Server) []verify.Violation {
			return planted(gone, "what was set is gone")
		}}
	}}
}

// Time and servers conflict with every request, also with one that conflicts
// with no other client's.
func TestFaultsAreNotReduced(t *testing.T) {
	strikes := map[Fault]time.Duration{Pause: Lease / 2, Empty: 0, Behind: 0, ServerClock: Lease}
	for fault, expiry := range strikes {
		servers := 1
		// A server's clock steps ahead only where there are several.
		if fault == ServerClock {
			servers = 3
		}

		r := Run(t, reads(expiry, servers), Bounds{Faults: 1, Kinds: []Fault{fault}})
		if len(r.Found) != 1 || r.Found[0].Harm != "planted" {
			t.Errorf("%s: %s", fault, r)
			continue
		}

		f, err := Replay(t.Context(), reads(expiry, servers), r.Found[0].Token)
		if err != nil || !strings.Contains(f.Diagram.String(), "Harm: planted: what was set is gone") {
			t.Errorf("%s: token %s plays %v\n%s", fault, r.Found[0].Token, err, f.Diagram)
		}
	}
}

// What happens to one of several servers happens to no other: not a start without
// data, nor a conflict of keys.
func TestSeveralServers(t *testing.T) {
	all := Bounds{Preemptions: 1, Faults: 1, Kinds: []Fault{Empty}, Exhaustive: true}
	r := Run(t, reads(0, 3), all)
	if len(r.Found) != 1 || !strings.Contains(r.Found[0].Token, "empty3") {
		t.Errorf("want harm where the third starts empty, and none elsewhere: %s", r)
	}

	p := Program{Name: "apart", Subject: "own", LockServers: 2, Begin: func(*Server) *Trial {
		do := func(n int) Client {
			return Client{"AB"[n : n+1], connectedTo(n, func(
				ctx context.Context, conn *redisconn.Conn) string {

				return fmt.Sprint(conn.Incr(ctx, "key").Err(), conn.Incr(ctx, "key").Err())
			})}
		}
		return &Trial{Clients: []Client{do(0), do(1)}, Judge: noHarm}
	}}
	if r := Run(t, p, Bounds{Preemptions: 2}); r.Schedules != 1 {
		t.Errorf("one key at two servers conflicts with itself: %s", r)
	}
}

// Each kind of fault happens once.
func TestOnce(t *testing.T) {
	twice := Bounds{Faults: 2, Kinds: []Fault{Drop}, Exhaustive: true}
	once := twice
	once.Once = true
	two, one := Run(t, pushes(3, true, ""), twice), Run(t, pushes(3, true, ""), once)
	twice.Faults = 1
	again := Run(t, pushes(3, true, ""), twice)
	if one.Schedules != again.Schedules || two.Schedules <= one.Schedules {
		t.Errorf("%d schedules with two faults, %d with one of a kind, %d with one",
			two.Schedules, one.Schedules, again.Schedules)
	}
}

// A connection may break while nothing is asked over it: one that is used again later, and
// one over which a client listens, which then hears nothing.
func TestIdleBreak(t *testing.T) {
	for ops, want := range map[op]string{"append": "EOF", "subscribe": "EOF"} {
		p := script{clients: [][]op{{"get", "sleep", ops}, {"sleep-long", "publish"}}}
		for kind, found := range map[Fault]bool{IdleBreak: true, Pause: false} {
			b := Bounds{Preemptions: 1, Faults: 1, Kinds: []Fault{kind}, Exhaustive: true}

			all, r, err := endsOf(t, p, b, "")
			if err != nil {
				t.Fatal(err)
			}
			isBroken := func(end string) bool {
				return strings.Contains(end, want) || strings.Contains(end, "reset")
			}
			if broken := slices.ContainsFunc(slices.Collect(maps.Keys(all)), isBroken); broken != found {
				t.Errorf("%s, %s: %d ends, in one a connection is broken: %t\n%s",
					ops, kind, len(all), broken, r)
			}
		}
	}
}
