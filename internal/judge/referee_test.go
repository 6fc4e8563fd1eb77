package judge

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/verify"
)

// A referee needs no process to find each harm.
func TestReferee(t *testing.T) {
	const alice, bob = 0, 1
	var r *referee
	take := func(client int, token string) {
		r.takesAgain(client)
		r.sends(client, "SET lock", term{begins: time.Now()})
		time.Sleep(time.Microsecond) // so that the shortest lease is over
		r.acquires(client, token)
	}

	for _, c := range []struct {
		what  string
		lease time.Duration
		do    func()
		want  []verify.Harm
	}{
		{"one after the other", time.Hour, func() {
			take(alice, "1")
			r.leaves(alice)
			r.releases(alice, program.Released)
			take(bob, "2")
		}, nil},
		{"both", time.Hour, func() {
			take(alice, "")
			take(bob, "")
		}, []verify.Harm{verify.TwoHolders}},
		{"after the lease", 1, func() {
			take(alice, "")
			take(bob, "")
		}, []verify.Harm{verify.Outlived}},
		{"in time of a renewal", time.Hour, func() {
			take(alice, "")
			time.Sleep(time.Hour / 2)
			r.renews(alice, time.Now(), time.Now())
			time.Sleep(time.Hour * 3 / 4)
			take(bob, "")
		}, []verify.Harm{verify.TwoHolders}},
		{"a renewal that came in time was answered when the lease had ended", time.Hour, func() {
			take(alice, "")
			time.Sleep(time.Hour / 2)
			came := time.Now()
			time.Sleep(time.Hour / 2)
			r.renews(alice, came, time.Now())
			take(bob, "")
		}, []verify.Harm{verify.Outlived}},
		{"after a lease that counts from when it was sent", time.Hour, func() {
			r.sends(alice, "SET lock", term{begins: time.Now().Add(-time.Hour)})
			r.acquires(alice, "")
			take(bob, "")
		}, []verify.Harm{verify.Outlived}},
		{"after a lease that ends at a time", time.Hour, func() {
			r.sends(alice, "SET lock", term{begins: time.Now(), ends: time.Now()})
			r.acquires(alice, "")
			take(bob, "")
		}, []verify.Harm{verify.Outlived}},
		{"before the time at which a lease ends, by the last try", time.Hour, func() {
			r.sends(alice, "SET lock", term{begins: time.Now(), ends: time.Now()})
			r.sends(alice, "SET lock", term{begins: time.Now(), ends: time.Now().Add(time.Hour)})
			r.acquires(alice, "")
			take(bob, "")
		}, []verify.Harm{verify.TwoHolders}},
		{"stopped with a time that it had sent long before", time.Hour, func() {
			r.sends(alice, "SET lock", term{begins: time.Now().Add(-time.Hour)})
			r.pauses(alice)
			take(bob, "")
			r.acquires(alice, "")
		}, []verify.Harm{verify.Outlived}},
		{"after a release by another", time.Hour, func() {
			take(alice, "")
			take(bob, "")
			r.leaves(alice)
			r.releases(alice, program.Released)
			take(alice, "")
		}, []verify.Harm{verify.TwoHolders, verify.FreedAnothers}},
		{"untold", 1, func() {
			take(alice, "")
			take(bob, "")
			r.releases(alice, program.Released)
		}, []verify.Harm{verify.Outlived, verify.NotTold}},
		{"a release that was cancelled, and had freed the lock", time.Hour, func() {
			take(alice, "")
			r.leaves(alice)
			r.cancelsCall(alice)
			r.failsToRelease(alice)
			take(bob, "")
			r.leaves(alice)
			r.releases(alice, program.Released)
		}, nil},
		{"its repetition frees another's", time.Hour, func() {
			take(alice, "")
			r.leaves(alice)
			r.cancelsCall(alice)
			r.failsToRelease(alice)
			take(bob, "")
			r.leaves(alice)
			r.releases(alice, program.Released)
			take(alice, "")
		}, []verify.Harm{verify.FreedAnothers}},
		{"who waits until a release is repeated", 1, func() {
			take(alice, "")
			r.leaves(alice)
			r.cancelsCall(alice)
			r.failsToRelease(alice)
			r.waits(bob, time.Hour)
		}, nil},
		{"kept out by what a cancelled call has left", 1, func() {
			r.cancelsCall(alice)
			r.takesAgain(alice)
			r.waits(alice, time.Hour)
		}, []verify.Harm{verify.LockedOut}},
		{"after a release by another, with a wrong clock", time.Hour, func() {
			r.wrongClock = true
			take(alice, "")
			take(bob, "")
			r.leaves(alice)
			r.releases(alice, program.Released)
			take(alice, "")
		}, []verify.Harm{verify.TwoHolders, verify.TwoHolders}},
		{"told of a loss that was none", time.Hour, func() {
			take(alice, "")
			r.leaves(alice)
			r.releases(alice, program.Lost)
		}, []verify.Harm{verify.ToldOfNoLoss}},
		{"told of a loss after the lease", 1, func() {
			take(alice, "")
			r.leaves(alice)
			r.releases(alice, program.Lost)
		}, nil},
		{"told of a loss after a release by another", time.Hour, func() {
			take(alice, "")
			take(bob, "")
			r.leaves(alice)
			r.releases(alice, program.Released)
			r.leaves(bob)
			r.releases(bob, program.Lost)
		}, []verify.Harm{verify.TwoHolders}},
		{"told of a loss after a fault", time.Hour, func() {
			take(alice, "")
			r.strikes()
			r.leaves(alice)
			r.releases(alice, program.Lost)
		}, nil},
		{"a token twice", 1, func() {
			take(alice, "7")
			r.ends(alice)
			take(bob, "7")
		}, []verify.Harm{verify.FenceRepeats}},
		{"kept out", 1, func() { r.waits(bob, time.Hour) }, []verify.Harm{verify.LockedOut}},
		{"who waits for a holder", 1, func() {
			take(alice, "")
			r.waits(bob, time.Hour)
		}, nil},
	} {
		w := &world{leastLease: c.lease, tested: map[string]bool{}, clients: []*client{{}, {}}}
		w.clients[alice].Name = "Alice"
		w.clients[bob].Name = "Bob"

		synctest.Test(t, func(*testing.T) {
			r = newReferee(w)
			c.do()
		})

		var harms []verify.Harm
		for _, h := range r.harms {
			harms = append(harms, h.Harm)
		}
		if !slices.Equal(harms, c.want) {
			t.Errorf("%s: %v, want %v", c.what, r.harms, c.want)
		}
	}
}

// A release that fails is repeated once, as documentation tells users, and one that was
// cancelled as often as that happens.
func TestAReleaseThatFailsIsRepeatedOnce(t *testing.T) {
	w := &world{leastLease: time.Hour, tested: map[string]bool{}, clients: []*client{{}, {}}}
	r := newReferee(w)
	r.sends(0, "SET lock", term{begins: time.Now()})
	r.acquires(0, "")

	r.leaves(0)
	if !r.repeatsRelease(0) {
		t.Error("a release that has failed is not repeated")
	}
	r.failsToRelease(0)
	if r.unanswered {
		t.Error("no call was cancelled")
	}

	r.leaves(0)
	if r.repeatsRelease(0) {
		t.Error("a release is repeated without end")
	}
	r.cancelsCall(0)
	if !r.repeatsRelease(0) {
		t.Error("a cancelled release is not repeated")
	}
}
