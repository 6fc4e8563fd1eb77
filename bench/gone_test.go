package bench

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
)

// TestRowWhoseMasterIsReplaced: the replica of the market's master is cut off after some purchases, and takes the master's
// place after some more. The row goes on, what its buyer was told of those in between is counted as gone, and the rest of
// the market is right.
func TestRowWhoseMasterIsReplaced(t *testing.T) {
	t.Parallel()
	const cutAt, killedAt = 20, 50 // purchases
	ctx, cluster := t.Context(), testkit.Cluster(t)
	c := config(t, cluster.Server(), spec(t, "lua"))
	c.Keys = testkit.Keys(t)
	c.Dial, c.Mix, c.Purchases = cluster.Server().Dialer(c.Keys.Prefix()), result.Mix{Sellers: 1, Buyers: 1}, 200
	master, err := cluster.Master(ctx, c.Keys.Market())
	if err != nil {
		t.Fatal(err)
	}
	replica, err := cluster.ReplicaOf(ctx, master)
	if err != nil {
		t.Fatal(err)
	}
	var bought atomic.Int64
	c.steps = func(r Role) step.Observer {
		if r != Buyer {
			return nil
		}
		return func(_ context.Context, at step.Name) {
			if at != step.Written {
				return
			}
			switch bought.Add(1) {
			case cutAt:
				check(t, cluster.CutReplication(ctx, master, replica))
			case killedAt:
				check(t, cluster.Kill(master))
				check(t, cluster.Resume(replica))
			}
		}
	}
	row, err := Run(ctx, c)
	if err != nil || !row.Audit.Done || !row.Audit.OK || row.Status != result.Complete || row.Bought < c.Purchases {
		t.Fatalf("bought %d, audit %+v, warnings %q, %v", row.Bought, row.Audit, slices.Clone(row.Warnings), err)
	}
	// The purchase at which the replica was cut off may have reached it or not, and so may the last few before.
	if g := row.Audit.Gone; g == nil || g.Purchases < killedAt-cutAt || g.Purchases > killedAt {
		t.Errorf("gone are %+v, want %d purchases or a few more", g, killedAt-cutAt)
	}
	if without := row.WithoutServiceSeconds; without == nil || *without < 0.5 {
		t.Errorf("without service for %v s, want the time that a replica takes to be promoted", without)
	}
}

// check fails the test with an error, from any goroutine.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
