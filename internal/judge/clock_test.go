package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// A lease counts from when its request was sent if a time stands in that, which may be when
// it ends, by the client's own clock.
func TestTermOfARequest(t *testing.T) {
	came := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		c := &client{clock: wire.NewClock(ahead)}
		at := func(later time.Duration) string {
			return fmt.Sprint(came.Add(later + ahead).UnixMilli())
		}

		for _, tc := range []struct {
			request string
			counts  bool
			ends    time.Duration // after it came; 0: it does not say
		}{
			{"set lock token nx px 500", false, 0},
			{"set lock token nx pxat " + at(time.Second), true, time.Second},
			{"zadd lock " + at(-time.Second) + " token", true, 0},
			{
				"evalsha 77 1 lock " + at(-time.Second) + " " + at(2*time.Second) + " " + at(time.Second),
				true, time.Second,
			},
		} {
			before := time.Now()
			got := c.term(&wire.Held{Commands: [][]string{strings.Fields(tc.request)}, Came: came})

			counts := got.begins.Equal(came)
			if counts != tc.counts || !counts && got.begins.Before(before) {
				t.Errorf("%s: %q counts from %s, and came at %s", ahead, tc.request, got.begins, came)
			}

			ends := tc.ends != 0
			if ends == got.ends.IsZero() || ends && !got.ends.Equal(came.Add(tc.ends)) {
				t.Errorf("%s: %q ends at %s, and came at %s", ahead, tc.request, got.ends, came)
			}
		}
	}
}

// What only one client sends may have a clock inside, unless it is a number, or the lock. One
// that is as long as a hash may be signed.
func TestOpaqueWords(t *testing.T) {
	const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	for _, c := range []struct {
		what     string
		requests [2]string
		places   []string
		signed   string
	}{
		{"a token", [2]string{"set lock-1 9f86d081884c7d65 px 500", "set lock-2 b5bb9d8014a0f9b1 px 500"},
			[]string{"SET argument 2"}, ""},
		{
			"a time", [2]string{"set lock-1 x pxat 1700000000123", "set lock-2 x pxat 1700000000456"},
			nil, "",
		},
		{"what both send", [2]string{"set lock-1 held-by-nobody", "set lock-2 held-by-nobody"}, nil, ""},
		{
			"a script", [2]string{"evalsha " + hash + " 1 lock-1", "evalsha " + hash[1:] + "0 1 lock-2"},
			nil, "",
		},
		{"a signature", [2]string{"set signature-of:lock-1 " + hash, "set signature-of:lock-2 x"},
			[]string{"SET argument 2"}, hash},
		{"a part that is one", [2]string{"set lock-1 held:" + hash, "set lock-2 x"},
			[]string{"SET argument 2"}, "held:" + hash},
	} {
		o := &observation{locks: [2]string{"lock-1", "lock-2"}}
		for n, request := range c.requests {
			requestsOf(o, n, acquiring, request)
		}

		places, signed := o.opaque()
		if !slices.Equal(places, c.places) || signed != c.signed {
			t.Errorf("%s: %q, signed %q; want %q and %q", c.what, places, signed, c.places, c.signed)
		}
	}
}

// Only a promise that is kept trusts words, of which it names a few.
func TestTrustedWordsAreNamed(t *testing.T) {
	found := judgement{trusted: []string{"A", "B", "C", "D", "E", "F", "G"}}
	kept := verify.PromiseState{Promise: clockIndependent, State: "kept"}
	notes := found.trustNote([]verify.PromiseState{kept})
	const trusted = "trusted: A, B, C, D, E, and 2 more"
	if len(notes) != 1 || !strings.HasSuffix(notes[0], trusted) || len(found.trusted) != 7 {
		t.Errorf("of 7 words %q are named", notes)
	}
	kept.State = "broken"
	if notes := found.trustNote([]verify.PromiseState{kept}); notes != nil {
		t.Errorf("a broken promise trusts %q", notes)
	}
}

// What the gate could not set is unchecked, whatever was seen before.
func TestClockThatWasNotSet(t *testing.T) {
	found := newJudgement()
	found.tested[clockIndependent] = true
	found.clock = "a clock may be inside a word"
	for _, p := range found.verdicts() {
		if p.Promise == clockIndependent && (p.State != "unchecked" || p.Why != found.clock) {
			t.Errorf("%+v, want unchecked", p)
		}
	}
}
