package load

import (
	"errors"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// sharedCore lets some servers run one after the other, each for a turn, until the test ends: each
// has an equal share of one core, however many cores the machine has.
type sharedCore struct {
	servers []*backend.Server
	stop    chan struct{}
	stopped chan error
}

const turn = 10 * time.Millisecond

func shareACore(t *testing.T, servers []*backend.Server) {
	t.Helper()
	all := sharedCore{servers: servers, stop: make(chan struct{}), stopped: make(chan error, 1)}
	go func() { all.stopped <- all.run() }()
	t.Cleanup(func() {
		close(all.stop)
		testkit.Succeeds(t, <-all.stopped)
	})
}

// run returns when it is stopped, or fails. Then all servers run.
func (s sharedCore) run() (err error) {
	for _, server := range s.servers {
		err = errors.Join(err, server.Pause())
	}
	next := time.NewTicker(turn)
	defer next.Stop()

	for i := 0; err == nil; i++ {
		now := s.servers[i%len(s.servers)]
		err = now.Resume()
		select {
		case <-s.stop:
			for _, server := range s.servers {
				err = errors.Join(err, server.Resume())
			}
			return err
		case <-next.C:
		}
		err = errors.Join(err, now.Pause())
	}
	return err
}

// TestMastersAddUp: of three masters, each of which may use a third of a core, two and three
// buy more than one. What a machine with few cores cannot show, because its
// masters and clients take time from each other, is shown here by giving each master a share
// that is its own.
func TestMastersAddUp(t *testing.T) {
	if !testkit.Long() {
		t.Skip("MARKETSIM_LONG measures 1, 2 and 3 masters with a third of a core each")
	}

	on := cluster{serverstest.Cluster(t)}
	for _, master := range on.Server.Cluster().Masters() { // replicas would take time from the clients
		replica := testkit.Must(on.ReplicaOf(t.Context(), on.numberOf(master.Addr)))(t)
		testkit.Succeeds(t, on.Redises[replica].Kill())
	}

	var masters []*backend.Server
	for _, master := range on.Server.Cluster().Masters() {
		masters = append(masters, on.Redises[on.numberOf(master.Addr)])
	}
	shareACore(t, masters)

	run := testkit.Must(market.NewKeys("scaling:"))(t)
	sites := testkit.Must(Sites(on.Server, run, 3))(t)
	var rates []float64
	for markets := 1; markets <= 3; markets++ {
		c := config(t, on.Server, spec(t, "lua"))
		c.Keys = run
		c.Sites = sites[:markets]
		c.Mix = result.Mix{Sellers: 12, Buyers: 24}
		if markets > 1 {
			c.Markets = markets
		}
		c.timed(4 * time.Second)
		c.Warmup = time.Second

		row := testkit.Must(c.run(t.Context()))(t)
		if !row.Audit.OK || len(row.Masters) != c.Markets {
			t.Errorf("%s: audit %+v, masters %+v", row.Name(), row.Audit, row.Masters)
		}
		rates = append(rates, row.PerSecond())
		t.Logf("masters: %d, purchases/s: %.0f, %.2f times those of one; servers %.2f, clients %.2f of a core", markets,
			row.PerSecond(), row.PerSecond()/rates[0], *row.ServerCPU/row.Seconds, *row.ClientCPU/row.Seconds)
	}

	if rates[1] < 1.2*rates[0] || rates[2] < 1.5*rates[0] {
		t.Errorf("1, 2 and 3 masters make %.0f purchases/s", rates)
	}
}
