package strategies_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
)

// A purchase that a replica has is made; one that none has in time is of unknown outcome, and applied on the master.
func TestReplicated(t *testing.T) {
	t.Parallel()
	master := testkit.Local(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Target.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{
		"lua:replicas=1", "fine:set-px:replicas=1", "fine:set-px:after-unknown=kill:replicas=1",
	} {
		alone := newFixture(t, master)
		err := parse(t, spec).CheckServer(t.Context(), alone.conn.Client, alone.keys)
		if !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s without a replica: %v", spec, err)
		}
	}
	replica := testkit.Start(t, backend.Local{
		Password: master.Target.Password, Args: []string{"--replicaof", host, port},
	})
	for _, spec := range []string{"lua:replicas=1", "fine:set-px:replicas=1"} {
		g := newFixture(t, master)
		g.must(backend.Await(t.Context(), 10*time.Millisecond, func() error {
			return parse(t, spec).CheckServer(t.Context(), g.conn.Client, g.keys)
		}))
		w := g.open(spec, master, strategies.Env{})
		if _, err := w.purchase(g.offer(0)); err != nil {
			t.Errorf("%s with a replica: %v", spec, err)
		}
		second := g.offer(1)
		second.Buyer = buyer + 1
		g.must(replica.Pause())
		_, err := w.purchase(second)
		g.must(replica.Resume())
		if err == nil || market.Refused(err) {
			t.Errorf("%s with a replica that stands still: %v, want that the outcome is unknown", spec, err)
		}
	}
}
