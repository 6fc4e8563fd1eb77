package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// TestClientPause holds the first worker of the role that is meant, at the step that is meant, and lets it go.
func TestClientPause(t *testing.T) {
	n := newNemesis(nil, Options{})
	ctx, heal := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.pauseClient(ctx, Fault{Kind: ClientPause, Step: step.Acquired, Length: time.Hour})
	}()
	eventually(t, "a hold", func() bool { return n.hold.Load() != nil })
	gate := n.hold.Load().gate
	buyer, seller := n.steps(bench.Buyer), n.steps(bench.Seller)
	seller(t.Context(), step.Acquired)   // not the role
	buyer(t.Context(), step.BeforeWrite) // not the step
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		buyer(t.Context(), step.Acquired)
	}()
	<-gate.Reached()
	buyer(t.Context(), step.Acquired) // not the first
	select {
	case <-passed:
		t.Error("it was not held")
	default:
	}
	heal()
	<-done
	<-passed
	if n.counts()[string(ClientPause)] != 1 {
		t.Errorf("counted are %v", n.counts())
	}
	buyer(t.Context(), step.Acquired) // nobody is to be held any more
}

func TestClientPauseEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNemesis(nil, Options{})
		f := Fault{Kind: ClientPause, Step: step.Read, Seller: true, Length: 20 * time.Millisecond}
		go func() {
			for n.hold.Load() == nil {
				time.Sleep(time.Millisecond)
			}
			n.steps(bench.Seller)(t.Context(), step.Read)
		}()
		start := time.Now()
		n.begins(start)
		n.pauseClient(t.Context(), f)
		if at := n.times; len(at) != 1 || at[0].Kind != string(ClientPause) || math.Abs(at[0].End-at[0].Start-f.Length.Seconds()) > 1e-9 {
			t.Errorf("its time is %+v", at)
		}
		if took := time.Since(start); took < f.Length || took > 2*f.Length || n.counts()[string(ClientPause)] != 1 {
			t.Errorf("it took %s, counted are %v", took, n.counts())
		}
	})
}

func TestClientPauseOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNemesis(nil, Options{})
		n.pauseClient(t.Context(), Fault{Kind: ClientPause, Step: step.Read, Length: time.Hour})
		if len(n.counts()) != 0 {
			t.Errorf("counted are %v", n.counts())
		}
		n.steps(bench.Buyer)(t.Context(), step.Read) // nobody is to be held any more
	})
}

func parse(t *testing.T, spec string) strategies.Spec {
	t.Helper()
	s, err := catalogue.Full().Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// config is a row, to be struck on s. When the test ends, no key of it may be left.
func config(t *testing.T, s *Setup, spec string, mix result.Mix) bench.Config {
	t.Cleanup(func() {
		conn, err := s.Direct(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if left := conn.Keys(context.Background(), "*").Val(); len(left) > 0 {
			t.Errorf("keys are left behind: %q", left)
		}
	})
	return bench.Config{
		Subject: parse(t, spec), Mix: mix, Duration: time.Second, Seed: 1, Funds: bench.DefaultFunds,
		Keys: testkit.Keys(t), Dial: s.Direct,
	}
}

// sound are combinations that lose nothing, whatever strikes.
var sound = []struct {
	spec string
	ttl  time.Duration
}{
	{"watch", 0},
	{"fine:setnx", 0},
	{"coarse:setnx", 0},
	{"fine:set-px:ttl=500ms:fencing=token", 500 * time.Millisecond},
	{"fine:fenced:ttl=500ms:fencing=on", 500 * time.Millisecond},
}

// index is where a kind stands when the last comes first.
func index(k FaultKind) int { return -slices.Index(faultKinds(), k) }

// TestSoundLoseNothing lets every kind of fault strike while they trade.
func TestSoundLoseNothing(t *testing.T) {
	for _, c := range sound {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			spec := parse(t, c.spec)
			_, locked := spec.Lock()
			schedule := Plan{Seed: 3, Duration: 10 * time.Second, Lease: c.ttl, Locked: locked, Child: backend.CanPause}.
				Schedule()
			// Clients are held first: under the book's lock, nobody may get far after a reply was lost.
			slices.SortStableFunc(schedule[0].Faults, func(a, b Fault) int {
				return cmp.Compare(index(a.Kind), index(b.Kind))
			})
			frees := spec.HolderKeys
			if spec.Promises().SurvivesCrash {
				frees = nil
			}
			if frees != nil { // later, nobody may come to the step of a pause
				for i := range schedule[1:] {
					schedule[1+i].Faults = slices.DeleteFunc(schedule[1+i].Faults, func(f Fault) bool {
						return f.Kind == ClientPause || f.Kind == ProcessPause
					})
				}
			}
			told := 0
			row, err := s.Run(t.Context(), config(t, s, c.spec, result.Mix{Sellers: 5, Buyers: 5}), Options{
				Schedule: schedule, Expiry: spec.Expiry(), Frees: frees, Child: backend.CanPause,
				Patience: soon,
				OnFault: func(f Fault) {
					if f.Kind == ServerKill { // it stays away until somebody connects anew
						before := s.dials.Load()
						eventually(t, "a new connection", func() bool { return s.dials.Load() > before })
					}
				},
				OnRound: func(r result.Row) {
					if told++; r.Chaos.Rounds != told || !r.Audit.Done || r.Chaos.Struck() == 0 {
						t.Errorf("round %d is reported as %+v", told, r)
					}
				},
			})
			if err != nil || row.Status != result.Complete || !row.Audit.OK || row.Bought == 0 || told != len(schedule) {
				t.Fatalf("after %d rounds: %v, %+v", told, err, row)
			}
			times := map[string]int64{}
			for _, f := range row.Chaos.Times {
				if times[f.Kind]++; f.Start < 0 || f.End < f.Start {
					t.Errorf("%s from %v to %v s", f.Kind, f.Start, f.End)
				}
			}
			for _, k := range faultKinds() {
				if times[string(k)] != row.Chaos.Faults[string(k)] {
					t.Errorf("%d times of %d %s", times[string(k)], row.Chaos.Faults[string(k)], k)
				}
				if k == LockKill || k == LockPause { // their locks are on the market's server
					continue
				}
				if row.Chaos.Faults[string(k)] == 0 && (k != ProcessPause || backend.CanPause) {
					t.Errorf("no %s has struck: %v", k, row.Chaos.Faults)
				}
			}
			if row.Chaos.Market != result.MarketRight || len(row.Chaos.NotTested) > 0 || row.Chaos.Survived() != true {
				t.Errorf("it is told as %+v", row.Chaos)
			}
			if outlasted := *row.Chaos.LeasesOutlasted; (outlasted > 0) != (c.ttl > 0) {
				t.Errorf("%d pauses outlasted leases of %s", outlasted, c.ttl)
			}
			if row.Chaos.Reopened == 0 {
				t.Error("nobody had to connect anew")
			}
			t.Logf("%d bought, %d unknown, %+v", row.Bought, row.Unknown, row.Chaos)
		})
	}
}

// usurped runs two rounds with one fault, made by hand: a buyer who is about to write is held until somebody else has
// bought the item. The second round is there to show that the first violation ends the row.
func usurped(t *testing.T, spec string) result.Row {
	s := open(t)
	c := config(t, s, spec, result.Mix{Sellers: 2, Buyers: 3})
	gate := step.Hold(step.BeforeWrite)
	c.DialWorker, c.Steps = s.Dial, func(r bench.Role) step.Observer {
		if r == bench.Seller {
			return nil
		}
		return gate.Observe
	}
	d := &driver{
		config: c, rounds: 2, settle: s.Settle, struck: func() map[string]int64 { return map[string]int64{} },
		strike: func(ctx context.Context, _ int) error {
			defer gate.Open()
			return allSold(ctx, s, c, gate)
		},
	}
	row, err := d.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// allSold waits until all items that were on the market when a buyer was held, and so the buyer's too, are sold.
func allSold(ctx context.Context, s *Setup, c bench.Config, gate *step.Gate) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	select {
	case <-gate.Reached():
	case <-ctx.Done():
		return errors.New("no buyer came to the gate")
	}
	conn, err := s.Direct(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	offered, err := conn.ZRange(ctx, c.Keys.Market(), 0, -1).Result()
	if err != nil {
		return err
	}
	for _, member := range offered {
		for conn.ZScore(ctx, c.Keys.Market(), member).Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("nobody else bought the item: %w", ctx.Err())
	}
	return nil
}

// TestUnsoundAreCaught holds a buyer who is about to write for longer than the lock lives, until somebody else has
// bought the item. The audit after the first round must see it.
func TestUnsoundAreCaught(t *testing.T) {
	for _, spec := range []string{"fine:set-px:ttl=100ms", "fine:fenced:ttl=100ms:fencing=off", "unsafe"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			row := usurped(t, spec)
			if !row.Audit.Done || row.Audit.OK || row.Audit.ItemProblems == 0 || row.Chaos.Rounds != 1 {
				t.Errorf("after %d rounds: %+v", row.Chaos.Rounds, row.Audit)
			}
		})
	}
}

// TestFencesHold does the same with fences compared at the market: the buyer who comes late is refused.
func TestFencesHold(t *testing.T) {
	for _, spec := range []string{"fine:set-px:ttl=100ms:fencing=token", "fine:fenced:ttl=100ms:fencing=on"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			row := usurped(t, spec)
			if !row.Audit.OK || row.Refused["stale"] == 0 {
				t.Errorf("refused %v, audit %+v", row.Refused, row.Audit)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	row, err := s.Run(ctx, config(t, s, "watch", result.Mix{Sellers: 1, Buyers: 1}), Options{
		Schedule: Schedule{{Faults: []Fault{{Kind: ServerPause, Length: time.Hour}}}},
		OnFault:  func(Fault) { once.Do(cancel) },
	})
	if err != nil || row.Status != result.Interrupted || !row.Audit.Done || !row.Audit.OK || row.Chaos.Rounds != 1 {
		t.Errorf("%v, %+v", err, row)
	}
}

// recorded are LockServers that write down what is done to them.
type recorded struct{ done []string }

func (r *recorded) do(what string, i int) error {
	r.done = append(r.done, fmt.Sprint(what, i))
	return nil
}
func (r *recorded) Kill(i int) error                       { return r.do("kill ", i) }
func (r *recorded) Restart(_ context.Context, i int) error { return r.do("restart ", i) }
func (r *recorded) Pause(i int) error                      { return r.do("pause ", i) }
func (r *recorded) Resume(i int) error                     { return r.do("resume ", i) }

// TestLockServers: the server that is meant is broken and healed.
func TestLockServers(t *testing.T) {
	servers := &recorded{}
	n := newNemesis(nil, Options{LockServers: servers})
	for _, f := range []Fault{{Kind: LockKill, Server: 2}, {Kind: LockPause, Server: 5}} {
		if err := n.strike(t.Context(), f); err != nil || n.counts()[string(f.Kind)] != 1 {
			t.Errorf("%s: %v, %v", f, err, n.counts())
		}
	}
	if want := []string{"kill 1", "restart 1", "pause 4", "resume 4"}; !slices.Equal(servers.done, want) {
		t.Errorf("done is %q, want %q", servers.done, want)
	}
}
