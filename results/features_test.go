package results_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/results"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify"
)

// TestEachLockHasALine is what 'go generate' begins with: only a person can tell
// what is published of a lock.
func TestEachLockHasALine(t *testing.T) {
	for _, k := range catalogue.Full().Locks {
		if !strings.Contains(results.FeaturesCSV, "\n"+k.Name+",") {
			t.Errorf("results/features.csv has no line of %s. Add one, with yes or no in place of each - "+
				"of which something is published, and ? for what is observed, which is filled in:\n"+
				"%s,-,?,-,?,-,?,-,?", k.Name, k.Name)
		}
	}
}

// TestFeaturesAreObserved compares what features.csv says of each lock with what is seen:
// whether its holder enters again is played here, who deletes it and whether it expires
// is in the table of faults. With -update it writes what is seen.
func TestFeaturesAreObserved(t *testing.T) {
	t.Parallel()
	rows := testkit.Must(csv.NewReader(strings.NewReader(results.FeaturesCSV)).ReadAll())(t)
	before, faults, header := text(t, "features.csv"), readFaults(t), rows[0]
	rows = rows[1:]

	after := [][]string{header}
	for _, k := range catalogue.Full().Locks {
		i := slices.IndexFunc(rows, func(row []string) bool { return row[0] == k.Name })
		if i < 0 { // TestEachLockHasALine tells
			continue
		}

		row := slices.Clone(rows[i])
		t.Run(k.Name, func(t *testing.T) { row[2], row[4] = enters(t, k) })
		row[6], row[8] = ownerDeletes(faults, k.Name), expires(faults, k.Name)
		after = append(after, row)
	}

	var b bytes.Buffer
	testkit.Succeeds(t, csv.NewWriter(&b).WriteAll(after))
	rewrite(t, "features.csv", before, b.String())
}

// enters plays whether the holder of a lock takes it again while it has it, for
// reading and for writing.
func enters(t *testing.T, k lock.Kind) (reading, writing string) {
	started, err := servers.ForLock(t.Context(), servers.Addresses{}, string(k.Needs))
	if errors.Is(err, process.ErrUnavailable) {
		testkit.Require(t, string(k.Needs), err.Error())
	}
	testkit.Succeeds(t, err)
	t.Cleanup(func() { _ = started.Close() })

	s := testkit.Embedded(t)
	dial := func(context.Context) (*redis.Client, error) { return testkit.Dial(t, s).Client, nil }
	env := lock.Env{
		Redis:     testkit.Dial(t, s).Client,
		NewClient: dial,
		Key:       testkit.Keys(t).Lock,
		Params:    param.Values{lock.TimeoutParam.Name: "0s"},
		Servers: connect.MarketServers{
			Masters: servers.Dialers(started.Masters), ZooKeeper: started.ZooKeeper, Etcd: started.Etcd,
		}.ForLocks(connect.Counters{}),
	}

	l := testkit.Must(k.New(env))(t)
	if c, ok := l.(io.Closer); ok {
		t.Cleanup(func() { _ = c.Close() })
	}

	twice := func(name string, take func(string) (*lock.Lease, error)) string {
		first := testkit.Must(take(name))(t)
		second, err := take(name)
		if err == nil {
			_ = second.Release(t.Context())
		}
		_ = first.Release(t.Context())
		return yesOrNo(err == nil)
	}

	reading = "-"
	if shared, ok := l.(lock.SharedLocker); ok {
		reading = twice("read", func(name string) (*lock.Lease, error) {
			return shared.AcquireShared(t.Context(), name)
		})
	}
	return reading, twice("written", func(name string) (*lock.Lease, error) {
		return l.Try(t.Context(), name)
	})
}

// ownerDeletes is what the scenarios saw that are about who releases a lock. If nobody
// else could get in, nothing was seen.
func ownerDeletes(faults *findings.FaultTable, subject string) string {
	asked := false
	for _, sc := range faults.Scenarios {
		if sc.Promise != "owner-only release" && sc.Name != "lost-release" && sc.Name != "reader-leaves" {
			continue
		}

		for _, f := range faults.Findings {
			if f.Scenario != sc.Name || f.Subject != subject || f.Harm == "" {
				continue
			}
			if f.Verdict.Harm() {
				return "no"
			}
			asked = asked || f.KeptOut != verify.HolderBack && f.KeptOut != verify.NeverIn
		}
	}

	if !asked {
		return "-"
	}
	return "yes"
}

// expires is whether others get in after the holder has died.
func expires(faults *findings.FaultTable, subject string) string {
	for _, f := range faults.Findings {
		if f.Scenario == "crash-holding" && f.Subject == subject && f.KeptOut != "" {
			return yesOrNo(f.KeptOut == verify.LeaseRanOut)
		}
	}
	return "-"
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
