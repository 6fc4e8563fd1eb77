package join

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

func TestMain(m *testing.M) { testkit.VerifyNoLeaks(m) }

// place is where members of a test meet.
type place struct {
	*testing.T
	config Config
	conn   *backend.Conn
}

func newPlace(t *testing.T, of int) place {
	t.Parallel()
	s := testkit.Local(t)
	return place{T: t, conn: testkit.Dial(t, s), config: Config{
		ID: "nightly", Of: of, Settings: map[string]string{"--seed": "1", "--duration": "10s"}, Keys: testkit.Keys(t), Dial: s.Dial,
	}}
}

// join lets so many members join, one after the other, with what changes their configuration.
func (p place) join(n int, change ...func(*Config)) (all []*Member) {
	p.Helper()
	for range n {
		m, err := p.tryJoin(change...)
		p.must(err)
		all = append(all, m)
	}
	return all
}

func (p place) tryJoin(change ...func(*Config)) (*Member, error) {
	c := p.config
	c.Settings = maps.Clone(c.Settings)
	for _, f := range change {
		f(&c)
	}
	return Join(p.Context(), c)
}

func (p place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// each does something with all members at a time, and returns their errors.
func each(members []*Member, do func(*Member) error) []error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = do(m) })
	}
	all.Wait()
	return errs
}

// all is each, of what must not fail.
func (p place) all(members []*Member, do func(*Member) error) {
	p.Helper()
	p.must(errors.Join(each(members, do)...))
}

// leave lets members leave, and fails unless nothing is left then.
func (p place) leave(members ...*Member) {
	p.Helper()
	p.all(members, func(m *Member) error { return m.Leave(p.Context()) })
	p.empty()
}

func (p place) empty() {
	p.Helper()
	left, err := p.conn.Keys(p.Context(), "*").Result()
	if err != nil || len(left) > 0 {
		p.Errorf("there are still the keys %q, %v", left, err)
	}
}

// die ends a member as SIGKILL does.
func die(m *Member) {
	close(m.done)
	m.beat.Wait()
	m.beats.Close()
	m.conn.Close()
}

// quick makes lost members known sooner.
func quick(c *Config) { c.Silence = 2 * time.Second }

// TestMembersMeet: they come to a step together, however their clocks differ begin at one time, and read what each handed
// over. Nothing is left.
func TestMembersMeet(t *testing.T) {
	p := newPlace(t, 3)
	skews := []time.Duration{-time.Hour, 0, 25 * time.Minute}
	var members []*Member
	for _, skew := range skews {
		members = append(members, p.join(1, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(skew) } })...)
	}
	p.all(members, func(m *Member) error { return m.Gather(t.Context(), time.Minute) })
	p.all(members, func(m *Member) error { return m.Together(t.Context(), 1) })

	starts := make([]Start, len(members))
	before := time.Now()
	p.all(members, func(m *Member) (err error) {
		starts[m.Index()], err = m.Start(t.Context(), 2)
		return err
	})
	for i, s := range starts {
		at := s.At.Add(-skews[i])
		if apart := at.Sub(starts[0].At.Add(-skews[0])).Abs(); apart > s.Within+starts[0].Within {
			t.Errorf("member %d begins %s from the first, and its clock is right within %s", i, apart, s.Within+starts[0].Within)
		}
		if ahead := at.Sub(before); ahead < lead/2 {
			t.Errorf("member %d begins %s after the last has come", i, ahead)
		}
	}

	long := strings.Repeat("0123456789", 250_000)
	p.all(members, func(m *Member) error { return m.Hand(t.Context(), []byte(long[m.Index():])) })
	p.all(members, func(m *Member) error {
		came, err := m.Rest(t.Context(), 3)
		if !slices.Equal(came, []bool{true, true, true}) {
			t.Errorf("came: %v", came)
		}
		return err
	})
	if mine, err := members[0].Reports(t.Context(), 4); err != nil || !mine {
		t.Errorf("the first reports: %t, %v", mine, err)
	}
	p.must(members[0].Publish(t.Context(), 4, []byte("half")))
	p.must(members[0].Publish(t.Context(), 4, []byte("whole")))
	if mine, err := members[2].Reports(t.Context(), 4); err != nil || mine {
		t.Errorf("the last reports: %t, %v", mine, err)
	}
	for i := range members {
		part, err := members[0].Part(t.Context(), i)
		if err != nil || string(part) != long[i:] {
			t.Errorf("part %d has %d bytes, %v", i, len(part), err)
		}
		for _, chunk := range p.conn.LRange(t.Context(), p.config.Keys.Part(i), 0, -1).Val() {
			if len(chunk) > 1<<20 {
				t.Errorf("a chunk has %d bytes", len(chunk))
			}
		}
	}
	if whole, err := members[2].Published(t.Context()); err != nil || string(whole) != "whole" {
		t.Errorf("published: %q, %v", whole, err)
	}
	p.leave(members...)
}

// TestJoinRefuses who comes with other settings, and who comes when the run is full, goes on, or is just ending.
func TestJoinRefuses(t *testing.T) {
	p := newPlace(t, 2)
	refused := func(want error, says string, change ...func(*Config)) {
		t.Helper()
		_, err := p.tryJoin(change...)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
			t.Errorf("joined with %v, want %v: %s", err, want, says)
		}
	}
	members := p.join(1)
	refused(ErrDiffers, "--duration is 5s here, and 10s on the first load machine of nightly",
		func(c *Config) { c.Settings["--duration"] = "5s" })
	refused(ErrDiffers, "--funds is 7 here, and not set on", func(c *Config) { c.Settings["--funds"] = "7" })
	refused(ErrDiffers, "--seed is not set here, and 1 on", func(c *Config) { delete(c.Settings, "--seed") })

	members = append(members, p.join(1)...)
	refused(ErrFull, "nightly has its 2 load machines")
	p.all(members, func(m *Member) error { return m.Together(t.Context(), 1) })
	refused(ErrBegun, "nightly is under way with 2 load machines")

	left := make(chan error)
	go func() { left <- members[0].Leave(t.Context()) }()
	for p.conn.HGet(t.Context(), p.config.Keys.Meeting(), "state").Val() != "ended" {
	}
	refused(ErrBegun, "nightly has ended")
	p.leave(members[1])
	p.must(<-left)
}

// TestFewerThanWanted: who waits in vain is told what to do, and leaves nothing. Who leaves before the run is full makes
// room for another.
func TestFewerThanWanted(t *testing.T) {
	p := newPlace(t, 3)
	members := p.join(2)
	p.must(members[0].Leave(t.Context()))
	if again := p.join(1)[0]; again.Index() != 0 {
		t.Errorf("the next has number %d", again.Index())
	} else {
		members[0] = again
	}
	err := members[0].Gather(t.Context(), time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "2 of 3 load machines joined nightly within 1ms: start the others with the "+
		"same --join nightly --of 3") {
		t.Errorf("gathered with %v", err)
	}
	p.leave(members...)
}

// TestLostMember: the others notice that one died, wait for it no longer, and remove the keys.
func TestLostMember(t *testing.T) {
	p := newPlace(t, 3)
	members := p.join(3, quick)
	p.all(members, func(m *Member) error { return m.Together(t.Context(), 1) })
	die(members[0])
	for i, err := range each(members[1:], func(m *Member) error { return m.Together(t.Context(), 2) }) {
		over := (*Over)(nil)
		if !errors.As(err, &over) || over.Cause != Lost || over.Member != 0 ||
			err.Error() != "load machine 1 was lost: it was silent for 2s" {
			t.Errorf("member %d: %v", i+1, err)
		}
		<-members[i+1].Over()
	}
	p.all(members[1:], func(m *Member) error {
		came, err := m.Rest(t.Context(), 3)
		if !slices.Equal(came, []bool{false, true, true}) {
			t.Errorf("came: %v", came)
		}
		return err
	})
	if mine, err := members[1].Reports(t.Context(), 4); err != nil || !mine {
		t.Errorf("the second reports: %t, %v", mine, err)
	}
	p.leave(members[1:]...)
}

// TestAllWereKilled: before a run is full that is as if they had never been; after it, what they left has to be removed.
func TestAllWereKilled(t *testing.T) {
	p := newPlace(t, 2)
	die(p.join(1, quick)[0])
	var second *Member
	for second == nil || second.Index() != 0 { // until the first is known to be silent
		if second != nil {
			p.must(second.Leave(t.Context()))
		}
		second = p.join(1, quick)[0]
	}
	die(p.join(1, quick)[0])
	die(second)
	err := ErrFull
	for errors.Is(err, ErrFull) {
		_, err = p.tryJoin(quick)
	}
	if !errors.Is(err, ErrAbandoned) || !strings.Contains(err.Error(), "'marketsim clean --prefix "+p.config.Keys.Prefix()+"'") {
		t.Errorf("joined with %v", err)
	}
	keys, err := ReadKeys(t.Context(), p.conn, p.config.Keys)
	if err != nil || len(keys) != 4 {
		t.Errorf("the keys are %q, %v", keys, err)
	}
	_, err = market.RemoveKeys(t.Context(), p.conn, slices.Values(keys))
	p.must(err)
	p.empty()
}

// TestStop: what one member says ends the run for all, and what others say later does not count.
func TestStop(t *testing.T) {
	p := newPlace(t, 2)
	members := p.join(1)
	p.must(members[0].Stop(t.Context(), Failed, "nobody else is here yet"))
	members = append(members, p.join(1)...)
	p.must(members[1].Stop(t.Context(), Failed, "no memory"))
	p.must(members[0].Stop(t.Context(), Interrupted, ""))
	for _, m := range members {
		<-m.Over()
		if err := m.Together(t.Context(), 1); err == nil || err.Error() != "load machine 2 failed: no memory" {
			t.Errorf("together with %v", err)
		}
	}
	p.leave(members...)
}

// TestGuard: a member that was silent for so long that the others count it as lost sends nothing more, though its process
// goes on.
func TestGuard(t *testing.T) {
	p := newPlace(t, 2)
	members := p.join(2, quick)
	p.all(members, func(m *Member) error { return m.Together(t.Context(), 1) })
	asleep := members[1]
	conn, err := asleep.Guard(asleep.config.Dial)(t.Context())
	p.must(err)
	defer conn.Close()
	p.must(conn.Set(t.Context(), "awake", 1, 0).Err())

	asleep.mu.Lock() // it gives no sign of life
	<-members[0].Over()
	written, piped := make(chan error), make(chan error)
	go func() { written <- conn.Set(t.Context(), "late", 1, 0).Err() }()
	go func() {
		_, err := conn.TxPipelined(t.Context(), func(tx redis.Pipeliner) error { return tx.Set(t.Context(), "late", 1, 0).Err() })
		piped <- err
	}()
	asleep.mu.Unlock()
	for _, err := range []error{<-written, <-piped} {
		over := (*Over)(nil)
		if !errors.As(err, &over) || over.Cause != Cut || over.Member != 1 {
			t.Errorf("a write after that: %v", err)
		}
	}
	if n := p.conn.Exists(t.Context(), "late").Val(); n != 0 {
		t.Error("it was written")
	}
	p.must(p.conn.Del(t.Context(), "awake").Err())
	p.leave(members...)
}

// asked is a server whose answers to TIME take their way there and back by a clock that stands still otherwise.
type asked struct {
	redis.Cmdable
	now         *time.Time
	ahead       time.Duration // of the server's clock
	there, back []time.Duration
}

func (a *asked) Time(context.Context) *redis.TimeCmd {
	*a.now = a.now.Add(a.there[0])
	cmd := redis.NewTimeCmd(context.Background())
	cmd.SetVal(a.now.Add(a.ahead))
	*a.now = a.now.Add(a.back[0])
	a.there, a.back = a.there[1:], a.back[1:]
	return cmd
}

// TestClockTakesTheShortestWay: the time of a server a year ahead is found again, and how far it can be wrong is half of
// the shortest way, as lopsided as that may be.
func TestClockTakesTheShortestWay(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	here := start
	server := &asked{now: &here, ahead: 365 * 24 * time.Hour}
	for i := range roundTrips {
		server.there = append(server.there, time.Duration(10+i)*time.Millisecond)
		server.back = append(server.back, 30*time.Millisecond)
	}
	server.there[7], server.back[7] = time.Millisecond, 3*time.Millisecond
	c, err := readClock(t.Context(), server, func() time.Time { return here })
	if err != nil || c.within != 2*time.Millisecond {
		t.Fatalf("right within %s, %v", c.within, err)
	}
	want := start.Add(time.Hour)
	if wrong := c.local(want.Add(server.ahead)).Sub(want); wrong.Abs() != time.Millisecond {
		t.Errorf("wrong by %s, want 1ms: its answer took 1 ms there and 3 ms back", wrong)
	}
}
