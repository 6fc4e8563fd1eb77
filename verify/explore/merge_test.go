package explore

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"maps"
	"math/rand"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/verify"
)

// An op is what a client of a random program does: one request, or what leads to some.
type op string

var ops = []op{
	"get", "append", "set-nx", "set-px", "delete", "watch", "exec",
	"blpop", "rpush", "publish", "subscribe",
	"sleep", "jitter", "script", "side", "clock", "token", "call",
}

// A script is a program of ops: what its clients do, one after the other.
type script struct {
	clients  [][]op
	observed bool
	locks    int  // lock servers: all is then done at the first
	later    bool // see Program.BeginsLater
}

func drawScript(t *rapid.T) (p script) {
	for i := range 2 {
		drawn := rapid.SliceOfN(rapid.SampledFrom(ops), 1, 3).Draw(t, strconv.Itoa(i))
		p.clients = append(p.clients, drawn)
	}
	p.later = rapid.Bool().Draw(t, "later")
	return p
}

// ends are how schedules of a program ended: what the server held, and what each client
// was told.
type ends map[string]bool

// program notes how each schedule ends.
func (p script) program(all ends) Program {
	return Program{
		Name: "ops", Subject: "own", Lease: 100 * time.Millisecond,
		Observed: p.observed, LockServers: p.locks,
		BeginsLater: p.later,
		Begin: func(*Server) *Trial {
			shared := ""
			told := make([]string, len(p.clients))
			trial := &Trial{State: func() string { return shared }}
			trial.Judge = func(s *Server) []verify.Violation {
				all[s.world.lockServer(0).held()+shared+strings.Join(told, "; ")] = true
				return nil
			}

			for i, ops := range p.clients {
				name := string(rune('A' + i))
				do := connectedWith(p.locks-1, func(
					ctx context.Context, s *Session, conn *redisconn.Conn) string {

					c := &scripted{Session: s, conn: conn, name: name, shared: &shared}
					c.doAll(ctx, ops, &told[i])
					return told[i]
				})
				trial.Clients = append(trial.Clients, Client{Name: name, Do: do})
			}

			return trial
		},
	}
}

// doAll does ops, and adds to told what the client was told of each.
func (c *scripted) doAll(ctx context.Context, ops []op, told *string) {
	for _, op := range ops {
		answer := c.do(ctx, op)
		if c.Died() { // its connections have broken and its calls have ended, in any order
			return
		}
		*told += answer + " "
	}
}

// connectedWith is connectedTo for what needs its session, too.
func connectedWith(
	n int,
	do func(context.Context, *Session, *redisconn.Conn) string,
) func(context.Context, *Session) string {
	return func(ctx context.Context, s *Session) string {
		return connectedTo(n, func(ctx context.Context, conn *redisconn.Conn) string {
			return do(ctx, s, conn)
		})(ctx, s)
	}
}

// scripted is a client that does ops.
type scripted struct {
	*Session
	conn   *redisconn.Conn
	name   string
	shared *string // by all clients, outside the servers
}

// do does one op, and returns what the client was told.
func (c *scripted) do(ctx context.Context, op op) string {
	switch rdb := c.conn.Client; op {

	case "get":
		return fmt.Sprint(rdb.Get(ctx, "key").Result())
	case "append":
		return fmt.Sprint(rdb.Append(ctx, "key", c.name).Result())
	case "set-nx":
		return fmt.Sprint(rdb.SetNX(ctx, "key", c.name, 50*time.Millisecond).Result())
	case "set-px":
		return fmt.Sprint(rdb.Set(ctx, "key", "same", 50*time.Millisecond).Result())

	case "delete":
		return fmt.Sprint(rdb.Del(ctx, "key").Result())

	case "watch":
		return fmt.Sprint(rdb.Do(ctx, "WATCH", "key").Result())
	case "exec":
		return c.exec(ctx)

	case "blpop":
		return fmt.Sprint(rdb.BLPop(ctx, time.Second, "list").Result())
	case "rpush":
		return fmt.Sprint(rdb.RPush(ctx, "list", c.name).Result())

	case "publish":
		return fmt.Sprint(rdb.Publish(ctx, "channel", c.name).Result())
	case "subscribe":
		return c.subscribe(ctx)

	case "now":
		return time.Now().Format(time.StampMilli)
	case "sleep":
		time.Sleep(30 * time.Millisecond)
	case "sleep-long":
		time.Sleep(time.Second)
	case "jitter":
		time.Sleep(time.Duration(1+rand.Intn(3)) * 20 * time.Millisecond)

	case "token":
		return crand.Text()
	case "script":
		return fmt.Sprint(increment.Run(ctx, rdb, []string{"n"}).Result())

	case "side":
		return c.side(ctx)

	case "clock":
		return strconv.FormatBool(c.Now().After(time.Now()))
	case "seen":
		return strconv.Itoa(c.Seen().Changes)

	case "call":
		return givenUp{}.serve(ctx, c.Session)
	case "shared":
		*c.shared += c.name
	}
	return ""
}

var increment = redis.NewScript(`return redis.call('incr', KEYS[1])`)

// exec queues and executes over the connection that may watch.
func (c *scripted) exec(ctx context.Context) string {
	_, err := c.conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Append(ctx, "key", c.name)
		return nil
	})
	return fmt.Sprint(err)
}

// subscribe waits for one message.
func (c *scripted) subscribe(ctx context.Context) string {
	pubsub := c.conn.Subscribe(ctx, "channel")
	defer pubsub.Close()
	m, err := pubsub.ReceiveTimeout(ctx, time.Second)
	if err != nil {
		return err.Error()
	}
	next, err := pubsub.ReceiveTimeout(ctx, 200*time.Millisecond)
	return fmt.Sprint(m, next, err != nil)
}

// side makes a request over each of two connections at the same time.
func (c *scripted) side(ctx context.Context) string {
	toServer := func(ctx context.Context) (net.Conn, error) {
		return c.Connect(ctx, "", "")
	}
	other, err := redisconn.Over(toServer).WithReplyTimeout(c.ReplyTimeout()).Dial(ctx)
	if err != nil {
		return err.Error()
	}
	defer other.Close()

	done := make(chan string)
	go func() {
		done <- fmt.Sprint(other.Append(ctx, "key", "s").Result())
	}()
	return fmt.Sprint(c.conn.Get(ctx, "key").Result()) + <-done
}

// endsOf are all ends of a program within bounds.
func endsOf(
	t interface{ Fatalf(string, ...any) }, p script, b Bounds, leftOut string,
) (ends, *Report, error) {
	all := ends{}
	e := newExplorer(p.program(all), b)
	e.leftOut = leftOut
	e.silence = 2 * time.Minute
	r, err := e.search(context.Background())
	return all, r, err
}

// randomBounds are those with which random programs are searched.
func randomBounds(t *rapid.T) Bounds {
	return Bounds{
		Preemptions: rapid.IntRange(0, 3).Draw(t, "preemptions"),
		Faults:      rapid.IntRange(0, 1).Draw(t, "faults"),
		Kinds:       AllFaults(),
		Exhaustive:  true,
	}
}

// differ returns an end that one of them has alone.
func differ(a, b ends) string {
	for _, end := range slices.Concat(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) {
		if a[end] != b[end] {
			return end
		}
	}
	return ""
}

// randomChecks is how many random programs are searched: few, unless all searches are made.
func randomChecks() int {
	if n, err := strconv.Atoi(os.Getenv("MARKETSIM_RANDOM")); err == nil {
		return n
	}
	if SearchesAll() {
		return 300
	}
	return 15
}

// A search ends in the same ways whether its schedules are merged or not. The first program
// once did not: what a connection watches matters after it has broken, to a late EXEC.
func TestMergedSchedulesHaveTheSameEnds(t *testing.T) {
	merged := 0
	for n := range randomChecks() {
		p, b := exampleOf(n)
		if n == 0 {
			p = script{clients: [][]op{{"exec"}, {"get", "watch", "exec"}}}
			b = Bounds{Preemptions: 3, Faults: 1, Kinds: []Fault{Late}, Exhaustive: true}
		}

		b.Unmerged = true
		want, _, err := endsOf(t, p, b, "")
		if err != nil {
			t.Logf("%v: %v", p, err)
			continue
		}

		b.Unmerged = false
		got, r, err := endsOf(t, p, b, "")
		if err != nil {
			t.Fatalf("%v within %d and %d: %v", p, b.Preemptions, b.Faults, err)
		}

		merged += r.Merged
		if end := differ(want, got); end != "" {
			t.Fatalf("%v within %d preemptions and %d faults: "+
				"only with merged states %t, only without %t:\n%s",
				p, b.Preemptions, b.Faults, got[end], want[end], end)
		}
	}

	if merged == 0 {
		t.Error("no schedule was merged")
	}
}

// Two clients that draw tokens when the same time has passed have a stream each, so that as
// many schedules are merged as if they drew none.
func TestTokensAtTheSameInstant(t *testing.T) {
	merged := func(ops ...op) int {
		p := script{clients: [][]op{ops, ops}}
		_, r, err := endsOf(t, p, Bounds{Preemptions: Unbounded, Faults: 1, Kinds: []Fault{Late}}, "")
		if err != nil || !r.Complete {
			t.Fatalf("%v: %v", r, err)
		}
		return r.Merged
	}
	want := merged("sleep", "append", "get", "get")
	if got := merged("sleep", "token", "append", "get", "get"); got != want || want == 0 {
		t.Errorf("%d schedules are merged, and %d without tokens", got, want)
	}
}

// exampleOf is the n-th random program, and its bounds.
func exampleOf(n int) (p script, b Bounds) {
	one := rapid.Custom(func(t *rapid.T) any {
		p, b = drawScript(t), randomBounds(t)
		return nil
	})
	one.Example(n)
	return p, b
}

// Without any one part of the state, states are taken for equal that are not: a program ends
// in fewer ways, or a schedule goes on otherwise than its twin.
func TestEachPartOfTheStateMatters(t *testing.T) {
	for part, test := range map[string]struct {
		script
		Bounds
	}{
		partTime: {
			script{clients: [][]op{{"sleep-long"}, {"get", "now"}}},
			Bounds{Faults: 1, Kinds: []Fault{Pause}},
		},
		partTurn: {
			script{clients: [][]op{{"get", "append"}, {"get", "append"}}},
			Bounds{Preemptions: 1},
		},
		partShared: {
			script{clients: [][]op{{"get", "shared", "append"}, {"delete", "shared"}}}, Bounds{},
		},
		partHistory: {
			script{clients: [][]op{{"get", "append", "get", "append"}, {"append", "append"}}}, Bounds{},
		},
		partLife: {
			script{clients: [][]op{{"clock", "get", "clock"}, {"get"}}},
			Bounds{Faults: 1, Kinds: []Fault{Clock}},
		},
		partSeen: {
			script{clients: [][]op{{"append"}, {"append", "append", "set-px", "seen"}}, observed: true},
			Bounds{Faults: 1, Kinds: []Fault{Lose, Drop}},
		},
		partConns: {
			script{clients: [][]op{{"append", "get"}, {"append"}}},
			Bounds{Faults: 1, Kinds: []Fault{Late, Drop, Lose}},
		},
		partWatch: {script{clients: [][]op{{"watch", "exec"}, {"append"}}}, Bounds{}},
		partData: {
			script{clients: [][]op{{"get", "delete", "get", "set-px"}, {"set-px", "set-px"}}},
			Bounds{Faults: 1, Kinds: []Fault{Lose, Drop}},
		},
		partParked: {script{clients: [][]op{{"blpop"}, {"blpop"}, {"sleep", "rpush"}}}, Bounds{}},
		partLog: {
			script{clients: [][]op{
				{"get", "append", "delete", "append"}, {"set-px", "delete", "delete", "rpush"},
			}, locks: 1},
			Bounds{Faults: 1, Kinds: []Fault{Behind}},
		},
		partPolls: {
			script{clients: [][]op{{"append", "append", "delete", "append"}, {"get", "get", "get", "get"}}},
			Bounds{Faults: 1, Kinds: []Fault{Drop}},
		},
		partStruck: {
			script{clients: [][]op{{"get", "append"}, {"append"}}},
			Bounds{Faults: 2, Kinds: []Fault{Lose, Drop}, Once: true},
		},
	} {
		t.Run(part, func(t *testing.T) {
			b := test.Bounds
			b.Exhaustive = true
			if b.Preemptions == 0 {
				b.Preemptions = 4
			}

			b.Unmerged = true
			want, _, err := endsOf(t, test.script, b, "")
			if err != nil {
				t.Fatal(err)
			}

			b.Unmerged = false
			if got, _, err := endsOf(t, test.script, b, ""); err != nil || differ(want, got) != "" {
				t.Errorf("with the whole state: %v, differs in %q", err, differ(want, got))
			}

			// Without the part a search fails, or misses an end: both show that it matters.
			if got, _, err := endsOf(t, test.script, b, part); err == nil && differ(want, got) == "" {
				t.Errorf("%d ends without it, as with it: %q", len(got), slices.Sorted(maps.Keys(got)))
			}
		})
	}
}
