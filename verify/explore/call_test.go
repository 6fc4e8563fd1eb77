package explore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/verify"
)

// A givenUp is a program of A, whose users may give up, and B. Within a call A appends a
// letter over a connection that it closes if the call ends, and sleeps; after the call it
// appends one more, over another connection. Harm is done if what A was told and what stands
// there in the end is what it must not be, or always if that is empty.
type givenUp struct{ must string }

func (g givenUp) program() Program {
	return Program{Name: "calls", Subject: "own", Begin: func(*Server) *Trial {
		told := ""
		a := connectedWith(-1, func(ctx context.Context, s *Session, conn *redisconn.Conn) string {
			told = g.serve(ctx, s)
			_ = conn.Append(ctx, "shared", "!").Err()
			return told
		})

		b := connected(func(ctx context.Context, conn *redisconn.Conn) string {
			return fmt.Sprint(conn.Append(ctx, "shared", "b").Err())
		})

		return &Trial{
			Clients: []Client{{Name: "A", Do: a}, {Name: "B", Do: b}},
			State:   func() string { return told },
			Judge: func(s *Server) []verify.Violation {
				value, _ := s.redis.Get("shared") // nothing stands there if nothing was executed
				return planted(told+": "+value == g.must, g.must)
			},
		}
	}}
}

// serve does in a call what a user of A waits for.
func (givenUp) serve(ctx context.Context, s *Session) string {
	call, end := s.Call(ctx)
	defer end()
	bounded, cancel := context.WithTimeout(call, time.Hour) // what is derived ends as the call does
	defer cancel()

	conn, err := s.Connect(ctx, "", "")
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(s.ReplyTimeout())) // in memory
	replied := make(chan error, 1)
	go func() {
		replied <- appendsA(conn)
	}()
	select {
	case err = <-replied:
	case <-bounded.Done():
		return fmt.Sprint(bounded.Err())
	}

	select {
	case <-time.After(time.Second):
		return fmt.Sprint("slept ", err)
	case <-bounded.Done():
		return fmt.Sprint("woken: ", bounded.Err())
	}
}

func appendsA(conn net.Conn) error {
	_, err := io.WriteString(conn, "*3\r\n$6\r\nappend\r\n$6\r\nshared\r\n$1\r\na\r\n")
	if err == nil {
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	return err
}

// A call is cancelled, or its deadline comes, while a request waits and while nobody can go
// on. What was sent is lost then, or comes at any time.
func TestCancel(t *testing.T) {
	for must, found := range map[string]bool{
		"slept <nil>: ab!":                       true,
		"context canceled: b!":                   true,
		"context canceled: ab!":                  true,
		"context canceled: ba!":                  true,
		"context canceled: b!a":                  true,
		"context deadline exceeded: !b":          true,
		"context deadline exceeded: !ba":         true,
		"woken: context canceled: ba!":           true,
		"woken: context deadline exceeded: ab!":  true,
		"woken: context deadline exceeded: b!":   false, // what was answered was executed
		"slept context deadline exceeded: ab!":   false,
		"slept context canceled: ab!":            false,
		"woken: context deadline exceeded: ab!!": false,
	} {
		p := givenUp{must: must}.program()

		b := Bounds{Preemptions: Unbounded, Faults: 1, Kinds: []Fault{Cancel}, Exhaustive: true}
		r := Run(t, p, b)
		if len(r.Found) > 0 != found {
			t.Errorf("%s: want found %t\n%s", must, found, r)
		}
		if !r.Complete {
			t.Errorf("%s: no fixpoint\n%s", must, r)
		}

		for _, f := range r.Found {
			again, err := Replay(t.Context(), p, f.Token)
			if err != nil || again.Diagram.String() != f.Diagram.String() {
				t.Errorf("%s: replayed %s: %v\n%s", must, f.Token, err, again.Diagram)
			}
		}
	}
}

// Without a call that is open there is nothing to cancel, and by default nobody cancels.
func TestCancelNeedsACall(t *testing.T) {
	b := Bounds{Preemptions: Unbounded, Faults: 1, Kinds: []Fault{Cancel}}
	withoutCalls := pushes(2, true, "")
	r := Run(t, withoutCalls, b)
	b.Kinds = []Fault{}
	if want := Run(t, withoutCalls, b); r.Schedules != want.Schedules {
		t.Errorf("%d schedules, and %d without faults", r.Schedules, want.Schedules)
	}

	b = Bounds{Preemptions: Unbounded, Faults: 1}
	r = Run(t, givenUp{must: "context canceled: b!"}.program(), b)
	if len(r.Found) > 0 || slices.Contains(Faults(), Cancel) {
		t.Error(r)
	}
}

// A token with nothing but what comes without cancels can be replayed, whether the search
// could cancel or not.
func TestQuietTimeInTokens(t *testing.T) {
	p := givenUp{must: "slept <nil>: ab!"}.program()
	for _, kinds := range [][]Fault{{}, {Cancel}} {
		r := Run(t, p, Bounds{Faults: 1, Kinds: kinds})
		if len(r.Found) != 1 {
			t.Fatal(r)
		}

		token := r.Found[0].Token
		again, err := Replay(t.Context(), p, token)
		if err != nil || again.Diagram.String() != r.Found[0].Diagram.String() {
			t.Errorf("%s: %v\n%s", token, err, again.Diagram)
		}

		if strings.Contains(token, "cancel") {
			t.Error(token)
		}
	}
}
