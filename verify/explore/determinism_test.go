package explore

import (
	"context"
	"math/rand"
	"strconv"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
)

// later is a program in which Bob does something only if he comes before Alice: not in the
// first schedule. Harm is done with the text that does returns, unless it is empty.
func later(does func(context.Context, *Session, *redisconn.Conn) string) Program {
	return Program{Name: "later", Subject: "bob", Begin: func(*Server) *Trial {
		did := ""
		alice := connected(func(ctx context.Context, conn *redisconn.Conn) string {
			return conn.Set(ctx, "alice", "came", 0).String()
		})
		bob := func(ctx context.Context, s *Session) string {
			return connected(func(ctx context.Context, conn *redisconn.Conn) string {
				if conn.Get(ctx, "alice").Val() == "" {
					did = does(ctx, s, conn)
				}
				return did
			})(ctx, s)
		}

		return &Trial{
			Clients: []Client{{"Alice", alice}, {"Bob", bob}},
			Judge: func(*Server) []verify.Violation {
				return planted(did != "", did)
			},
		}
	}}
}

// What a client draws follows from the step, even if nobody has drawn before in the whole
// search, and is the same when the schedule is played alone.
func TestFirstDraw(t *testing.T) {
	p := later(func(ctx context.Context, _ *Session, conn *redisconn.Conn) string {
		first := rand.Int63()
		_ = conn.Incr(ctx, "between").Err()
		return strconv.FormatInt(first, 10) + " " + strconv.FormatInt(rand.Int63(), 10)
	})

	r := Run(t, p, Bounds{Preemptions: 1, Exhaustive: true})
	if len(r.Found) != 1 || r.Lost > 0 {
		t.Fatal(r)
	}

	alone := testkit.Must(Replay(t.Context(), p, r.Found[0].Token))(t)
	if played, found := alone.Diagram.String(), r.Found[0].Diagram.String(); played != found {
		t.Errorf("alone:\n%s\nin a search:\n%s", played, found)
	}
}

// Clients that draw in other steps each time are played nevertheless: every step is seeded then.
func TestWhoDrawsElsewhereEachTimeIsSeeded(t *testing.T) {
	var c chance
	defer c.without()()
	c.trust()

	schedules := 1
	for ; schedules <= 2*mostSurprises; schedules++ {
		c.seed(ofClient, schedules, 0, false)
		rand.Int63()
		if !c.misled() {
			break
		}
	}
	if schedules != mostSurprises+2 {
		t.Errorf("%d schedules were played until one was not to be played again; want %d",
			schedules, mostSurprises+2)
	}
}

// A client may wait for a mutex that a goroutine of its own holds over a request, although it
// had not to in the first schedule.
func TestFirstMutex(t *testing.T) {
	holds := func(ctx context.Context, mu *sync.Mutex, s *Session) {
		defer mu.Unlock()
		connected(func(ctx context.Context, conn *redisconn.Conn) string {
			return conn.Incr(ctx, "under the mutex").String()
		})(ctx, s)
	}

	p := Program{Name: "mutex", Subject: "bob", Begin: func(*Server) *Trial {
		waited := false
		alice := connected(func(ctx context.Context, conn *redisconn.Conn) string {
			return conn.Set(ctx, "alice", "came", 0).String()
		})

		bob := connectedWith(-1, func(ctx context.Context, s *Session, conn *redisconn.Conn) string {
			var mu sync.Mutex
			mu.Lock()
			go holds(ctx, &mu, s)
			if conn.Get(ctx, "alice").Val() == "" {
				mu.Lock()
				waited = true
			}
			return ""
		})

		return &Trial{
			Clients: []Client{{"Alice", alice}, {"Bob", bob}},
			Judge: func(*Server) []verify.Violation {
				return planted(waited, "waited")
			},
		}
	}}

	r := Run(t, p, Bounds{Preemptions: 2, Exhaustive: true})
	if len(r.Found) != 1 || r.Lost > 0 {
		t.Error(r)
	}
}
