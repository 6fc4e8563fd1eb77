package judge

import (
	"strings"
	"testing"
	"time"
)

// requestsOf has each client send some requests, a line each, while it is in a phase.
func requestsOf(o *observation, client int, during phase, lines ...string) {
	for n, line := range lines {
		o.requests[client] = append(o.requests[client], observedRequest{
			commands: [][]string{strings.Fields(line)},
			during:   during,
			at:       time.Unix(int64(n+1), 0),
		})
	}
}

// What clients send while they hold locks is a renewal, whatever its tokens and times are. What
// they send to take or release a lock as well is one only while they hold it.
func TestRenewalsAreKnownAgain(t *testing.T) {
	for _, c := range []struct {
		what      string
		acquires  string
		renewals  [2]string // of the clients, with their locks
		is, isNot string
		ambiguous bool
	}{
		{
			what:     "a script with a token",
			acquires: "set lock-1 one nx px 500",
			renewals: [2]string{"evalsha 77 1 lock-1 one 500", "evalsha 77 1 lock-2 two 500"},
			is:       "evalsha 77 1 c three 500",
			isNot:    "evalsha 78 1 c three 500",
		},
		{
			what:     "a time in milliseconds",
			acquires: "set lock-1 one nx pxat 1000",
			renewals: [2]string{"set lock-1 one xx pxat 1500", "set lock-2 two xx pxat 1511"},
			is:       "set c three xx pxat 2000",
			isNot:    "set c three nx pxat 2000",
		},
		{
			what:      "what sets the expiry at first, too",
			acquires:  "pexpire lock-1 500",
			renewals:  [2]string{"pexpire lock-1 500", "pexpire lock-2 500"},
			is:        "pexpire c 500",
			isNot:     "pexpire c 400",
			ambiguous: true,
		},
	} {
		o := &observation{locks: [2]string{"lock-1", "lock-2"}}
		requestsOf(o, 0, acquiring, c.acquires)
		for client, renewal := range c.renewals {
			requestsOf(o, client, holding, renewal, renewal)
		}
		begin := time.Unix(0, 0)
		r := o.renewing([2]time.Time{begin, begin})

		if len(r.requests) != 1 || r.every != time.Second {
			t.Errorf("%s: %+v", c.what, r)
			continue
		}
		p := r.requests[0]
		is := p.matches([][]string{strings.Fields(c.is)})
		isNot := p.matches([][]string{strings.Fields(c.isNot)})
		if !is || isNot || p.ambiguous != c.ambiguous {
			t.Errorf("%s: %q is one: %t, %q is one: %t, ambiguous: %t",
				c.what, c.is, is, c.isNot, isNot, p.ambiguous)
		}
	}

	if r := new(observation).renewing([2]time.Time{}); len(r.requests) > 0 {
		t.Errorf("clients that send nothing renew by %+v", r)
	}
}

// The load of a machine is told where it is several times what its cores can do.
func TestBusyMachineIsNamed(t *testing.T) {
	const says = "this machine was busy: on average 7 processes wanted to run on 2 cores"
	for loadavg, want := range map[string]string{"7.20 1 1 1/99 1": says, "5.90 1 1 1/99 1": "", "": ""} {
		if got := strings.Join(busyNote(loadOf(loadavg, 2)), ""); got != want {
			t.Errorf("%q: %q, want %q", loadavg, got, want)
		}
	}
}
