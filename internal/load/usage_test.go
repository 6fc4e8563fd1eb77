package load

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// TestUsage: a row on a server that tells has all of it, and one on miniredis what this
// process and this machine know.
func TestUsage(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine"))
		var row result.Row
		// on a machine that stood still
		for lasts := 200 * time.Millisecond; lasts < 10*time.Second; lasts *= 4 {
			c.timed(lasts)
			row = testkit.Must(c.run(t.Context()))(t)
			if row.ClientCPU != nil && *row.ClientCPU > 0 {
				break
			}
		}

		most := row.Seconds * 1.5 * float64(row.Cores)
		if row.ClientCPU == nil || *row.ClientCPU <= 0 || row.Cores < 1 || *row.ClientCPU > most {
			t.Errorf("this process used %v s of %d cores", row.ClientCPU, row.Cores)
		}

		known := s.Name == backend.OriginLocal
		told := row.ServerCPU != nil
		if told != known || told && (*row.ServerCPU <= 0 || *row.ServerCPU > 1.5*row.Seconds) {
			t.Errorf("the server used %v s", row.ServerCPU)
		}

		if row.OthersCPU == nil || *row.OthersCPU < 0 || row.StolenCPU == nil || *row.StolenCPU < 0 {
			t.Errorf("others used %v s, and %v s were stolen", row.OthersCPU, row.StolenCPU)
		}

		share := (*row.OthersCPU + *row.StolenCPU) / (row.Seconds * float64(row.Cores))
		if told, is := warned(row, result.Busy); is != (share > othersBusy) || is && told < 0.99*share {
			t.Errorf("others had %v of the machine, warnings %v", share, row.Warnings)
		}
	})
}

// TestNoReply: a row says for how long its server gave no reply, if that is a
// tenth of the row or a second.
func TestNoReply(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	admin := testkit.Dial(t, s)

	told := 0.0
	for try := 0; try < 5 && told < 300; try++ { // a machine that stands still then does not look
		pause := sync.OnceFunc(func() {
			if err := admin.Do(t.Context(), "client", "pause", 400).Err(); err != nil {
				t.Error(err)
			}
		})

		c := config(t, s, onPurchase(t, "watch", func(next attempt) (market.Receipt, error) {
			pause()
			return next()
		}))
		c.Duration = 2 * time.Second // the first purchase may come late on a busy machine
		told, _ = warned(testkit.Must(c.run(t.Context()))(t), result.NoReply)
	}
	if told < 300 {
		t.Errorf("%v ms without a reply are told, want 400", told)
	}

	for seconds, most := range map[time.Duration]time.Duration{1: 100, 5: 500, 10: 1000, 60: 1000} {
		m := newMeasurement(result.Point{Mix: mix1x1},
			Options{Subject: inRedis, Duration: seconds * time.Second})
		m.window.begin(0, m.Duration)
		for silent, want := range map[time.Duration]bool{most: false, most + 1: true} {
			m.markets[0].longestSilence = silent * time.Millisecond
			if _, is := warned(m.row(), result.NoReply); is != want {
				t.Errorf("%d s, %d ms without a reply: warned %t", seconds, silent, is)
			}
		}
	}
}

// TestUsageWarnings: who was the limit of a row of ten seconds on this machine,
// by what was used of its cores.
func TestUsageWarnings(t *testing.T) {
	cores := 10 * float64(runtime.NumCPU())
	for name, c := range map[string]struct {
		client, server, others, stolen, waiting float64
		far                                     bool
		want                                    result.Code
	}{
		"idle":                        {client: 1, server: 1},
		"client":                      {client: 0.95 * cores, server: 0.02 * cores, want: result.ClientLimit},
		"both":                        {client: 0.95*cores - 5, server: 5, want: result.ClientLimit},
		"server":                      {client: cores - 9.5, server: 9.5},
		"contention":                  {client: 0.95 * cores, server: 0.02 * cores, waiting: 0.6},
		"who does not tell":           {client: 0.95 * cores, server: -1},
		"who does not tell, far away": {client: 0.95 * cores, server: -1, far: true, want: result.ClientLimit},
		"the server's, far away":      {client: 0.8 * cores, server: 8, far: true},
		"others":                      {client: 1, server: 1, others: 0.06 * cores, want: result.Busy},
		"stolen":                      {client: 1, server: 1, stolen: 0.06 * cores, want: result.Busy},
		"few others":                  {client: 1, server: 1, others: 0.04 * cores},
	} {
		m := newMeasurement(result.Point{Mix: mix1x1}, Options{Subject: inRedis, Duration: 1})
		m.meters = []*meter{{here: !c.far}}
		// A server that does not tell has -1 in both readings; any other begins at 0.
		m.first = reading{at: time.Unix(0, 0), servers: []float64{min(0, c.server)}}
		m.last = reading{at: time.Unix(10, 0), servers: []float64{c.server}, client: c.client,
			machine: c.client + max(0, c.server) + c.others, stolen: c.stolen}
		if c.far {
			m.last.machine -= max(0, c.server)
		}

		counted := newTally(m.window, purchaseTime, lockWaitTime)
		counted.took[purchaseTime].note(time.Second)
		counted.took[lockWaitTime].note(time.Duration(c.waiting * float64(time.Second)))
		row := result.Row{Seconds: 10}
		m.addUsage(&row, counted)

		var want []result.Code
		if c.want != "" {
			want = append(want, c.want)
		}
		sameCode := func(w result.Warning, code result.Code) bool { return w.Code == code }
		if !slices.EqualFunc(row.Warnings, want, sameCode) {
			t.Errorf("%s: %v, want %q", name, row.Warnings, c.want)
		}
		if (row.ServerCPU != nil) != (c.server >= 0) || *row.ClientCPU != c.client {
			t.Errorf("%s: server %v, client %v", name, row.ServerCPU, *row.ClientCPU)
		}
	}
}
