package explore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify/explore"
)

// drifts reports whether a scheme's waiters may try once more or less in real time than
// in memory: because they wait for as long as the server says that the lease lasts, or
// because they read it by TTL, whose seconds the server in memory rounds in another way.
func drifts(name string) bool {
	return name == "queue" || strings.HasPrefix(name, "redisson") || name == "setnx-expire"
}

// What the search finds in memory happens on a real server, too, and so does what is no
// harm: 20 schedules of each scheme with MARKETSIM_EXPLORE, and else a few of a few. A
// machine that is too busy for the gaps of a schedule gets another try.
func TestRealRedis(t *testing.T) {
	testkit.Local(t) // without one nothing is searched either

	// Most of a schedule is waiting: those of a scheme are played on several servers.
	const servers = 3
	schedules := 3
	names := []string{
		"watch", "set-px", "set-px:fencing=token",
		"redislock", "set-px:write=fused", "set-px:after-unknown=kill",
	}
	if explore.SearchesAll() {
		schedules = 20
		names = fault.SchemeNames(catalogue.Full())
	}

	is := read(t, stored)
	one := suite.Markets()[0]
	for _, name := range names {
		scheme := testkit.Must(fault.SchemeOf(catalogue.Full(), name))(t)
		spec, err := one.Spec(catalogue.Full(), scheme.Spec.String())
		if err != nil || drifts(name) { // its lock needs other servers, or time is the server's
			continue
		}

		p := one.Program(spec.String(), spec.OpenFor)
		all, err := explore.PlayedOf(t, p, schedules,
			explore.Pause, explore.Die, explore.Lose, explore.Drop, explore.Split)
		if err == nil {
			var late []explore.PlayedSchedule
			late, err = playedLate(t, scheme, schedules/4)
			all = append(all, late...)
		}

		if err != nil {
			stored := func(e findings.Exploration) bool {
				return e.Scheme == name && e.Why == err.Error()
			}
			if !slices.ContainsFunc(is, stored) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}

		for first := range min(servers, len(all)) {
			t.Run(fmt.Sprintf("%s, from schedule %d", name, first+1), func(t *testing.T) {
				t.Parallel()
				server := testkit.Local(t)
				for i := first; i < len(all); i += servers {
					if err := playedReally(t, all[i], server.Target); err != nil {
						t.Errorf("schedule %d: %v", i+1, err)
					}
				}
			})
		}
	}
}

// playedReally plays a schedule on a real server, up to five times.
func playedReally(t *testing.T, one explore.PlayedSchedule, server redisconn.Target) error {
	t.Helper()
	err := one.Real(t.Context(), server)
	for try := 0; try < 4 && err != nil; try++ {
		err = one.Real(t.Context(), server)
	}
	return err
}

// A request that stays late while all others wait does its harm on a real server, too.
func TestRealRedisStaysLate(t *testing.T) {
	if !explore.SearchesAll() {
		t.Skip("it waits for a time-out of 5 s: set MARKETSIM_EXPLORE")
	}

	all := read(t, stored)
	i := slices.IndexFunc(all, func(e findings.Exploration) bool {
		return e.Scheme == "setnx" && e.Program == "one-item"
	})
	subject, name, steps, err := search.ParseToken(all[i].Token)
	if err != nil || !slices.Contains(steps, "t1-1") {
		t.Fatalf("the token %s lets no request stay late: %v", all[i].Token, err)
	}

	p, _ := programOf(t, subject, name)
	one := testkit.Must(explore.PlayedToken(t, p, all[i].Token))(t)
	server := testkit.Local(t)

	testkit.Succeeds(t, playedReally(t, one, server.Target))
}

// playedLate plays schedules with late requests, whose clients give up soon.
func playedLate(
	t *testing.T, scheme fault.Scheme, schedules int) ([]explore.PlayedSchedule, error) {

	t.Helper()
	markets := suite.Markets()
	i := slices.IndexFunc(markets, func(m suite.Market) bool {
		return m.Name == "one-item-long-leases"
	})
	spec, err := markets[i].Spec(catalogue.Full(), scheme.Spec.String())
	if err != nil {
		return nil, err
	}
	p := markets[i].Program(spec.String(), spec.OpenFor)
	return explore.PlayedOf(t, p, schedules, explore.Late)
}
