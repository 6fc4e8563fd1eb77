package explore

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// pushes is a program of two clients that append their letter so many times to a key of their own, or to one that they
// share. Harm is done if what stands there at the end is what it must not be.
func pushes(times int, shared bool, never string) Program {
	return Program{Name: "pushes", Subject: "letters", Begin: func(*Server) *Trial {
		trial := &Trial{Judge: func(s *Server) []Harm {
			if never != "" && strings.Contains(s.Do("GET", "shared"), never) {
				return []Harm{{"planted", never}}
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
					if err := conn.Append(ctx, key, letter).Err(); err != nil {
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

func choose(n, k int) int {
	c := 1
	for i := range k {
		c = c * (n - i) / (i + 1)
	}
	return c
}

// Two clients of k requests for one key have 2·C(k−1,⌊p/2⌋)·C(k−1,⌈p/2⌉) schedules with p preemptions, and one where they
// share none. Source: an interleaving of a and b blocks has a+b−2 preemptions, because the last switch is to whom the other
// leaves alone.
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

// one is a program with one client.
func one(do func(ctx context.Context, s *Session) string) Program {
	return Program{Name: "one", Subject: "own", Begin: func(*Server) *Trial {
		return &Trial{Judge: func(*Server) []Harm { return nil }, Clients: []Client{{"A", do}}}
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
