package judge

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
)

// A later program begins with the lease of an earlier one, unless one was asked for, and takes
// its worlds only if their locks have that.
func TestLeasesOfLaterPrograms(t *testing.T) {
	for _, c := range []struct {
		asked, known time.Duration
		want         []time.Duration
	}{
		{want: []time.Duration{ShortestLease, time.Second, longestAsked}},
		{known: time.Second, want: []time.Duration{time.Second, longestAsked}},
		{asked: 3 * time.Second, known: time.Second, want: []time.Duration{3 * time.Second}},
	} {
		o := Options{Lease: c.asked, known: c.known}
		if got := o.leases(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: leases of %s are tried, want %s", c, got, c.want)
		}
	}

	kept := pool{worlds: []*world{{wantedLease: time.Second}}}
	for lease, fits := range map[time.Duration]bool{
		0: true, time.Second: true, 2 * time.Second: false,
	} {
		if got := kept.fits(Options{Lease: lease}); got != fits {
			t.Errorf("worlds with a lease of 1s fit one of %s: %t", lease, got)
		}
	}

	if (&pool{}).fits(Options{}) {
		t.Error("no worlds fit a program")
	}
}

// Worlds for whose start there is no time are left out; what fails otherwise, and what a user
// interrupts, is an error.
func TestWorldsThatStartTooSlowly(t *testing.T) {
	waits := func(ctx context.Context, _ backend.Local) (*backend.Server, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	broken := errors.New("no server")
	fails := func(context.Context, backend.Local) (*backend.Server, error) {
		return nil, broken
	}

	tooSlow := Options{Pairs: 3, Within: 60 * time.Millisecond, StartServer: waits}
	if worlds, err := tooSlow.startWorlds(t.Context(), nil, time.Second); err != nil || len(worlds) > 0 {
		t.Errorf("no time: %d worlds, %v", len(worlds), err)
	}
	failing := Options{Pairs: 3, Within: time.Hour, StartServer: fails}
	if _, err := failing.startWorlds(t.Context(), nil, time.Second); !errors.Is(err, broken) {
		t.Errorf("no server: %v", err)
	}

	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	cancelled := Options{Pairs: 3, Within: time.Hour, StartServer: waits}
	if _, err := cancelled.startWorlds(interrupted, nil, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// Below the floor a program may take more than its share, and what it leaves is for those that
// follow.
func TestTimeBelowTheFloor(t *testing.T) {
	const within = 90 * time.Second
	began := time.Now()
	o := Options{Within: within}.only(locks, 0, within)
	own, most := o.beyond.Sub(began), o.until.Sub(began)
	if own <= 0 || most-own < time.Second || most >= within {
		t.Errorf("of %s the first program has %s, and %s below the floor", within, own, most)
	}
	last := Options{Within: within}.only(clockBehind, 3, 10*time.Second)
	if last.until.Sub(last.beyond).Abs() > time.Second {
		t.Errorf("the last program ends at %s, and below the floor at %s", last.beyond, last.until)
	}
}

// A program for which no time was left is below the floor, and time may reach it.
func TestProgramsWithoutTime(t *testing.T) {
	for _, name := range []string{works, clockAhead} {
		o := Options{Program: name, wholeWithin: time.Minute}
		o.Bounds.Preemptions = 1
		o.Bounds.Faults = 1
		left := o.belowFloor(unbegun())
		if left.why != "stopped after 0 schedules" || left.within <= time.Minute {
			t.Errorf("%s: %+v", name, left)
		}
	}
}

// A schedule in which a client was not idle in time is played again, a few times in a row:
// then it is the client that is never idle.
func TestSchedulesThatArePlayedAgain(t *testing.T) {
	w := &world{}
	for n := range mostAgain + 1 {
		s := &schedule{world: w, unsettled: true}
		if again := s.playAgain(); again != (n < mostAgain) || s.guessed == again {
			t.Errorf("schedule %d: played again: %t, guessed: %t", n, again, s.guessed)
		}
	}
	if s := (&schedule{world: &world{}}); s.playAgain() {
		t.Error("a schedule whose clients were idle is played again")
	}
}
