package load

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// several is a row of so many markets on s.
func several(t *testing.T, s *backend.Server, strategy string, markets int) plan {
	c := config(t, s, spec(t, strategy))
	c.Sites = testkit.Must(Sites(s, c.Keys, markets))(t)
	c.Markets = markets
	c.Mix = result.Mix{Sellers: 2 * markets, Buyers: 2*markets + 1}
	return c
}

// TestSharesAreEven: what is divided among markets is all there, and no market has two more
// than another. Each worker trades in the market whose part it is.
func TestSharesAreEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "markets")
		things := rapid.IntRange(0, 100).Draw(t, "things")

		var parts []int
		for i := range n {
			parts = append(parts, share(things, n, i))
		}

		all := 0
		for _, part := range parts {
			all += part
		}
		if all != things || slices.Max(parts)-slices.Min(parts) > 1 {
			t.Errorf("%d things in %d parts: %v", things, n, parts)
		}

		mix := result.Mix{
			Sellers: rapid.IntRange(n, 20).Draw(t, "sellers"),
			Buyers:  rapid.IntRange(n, 20).Draw(t, "buyers"),
		}
		wallets := rapid.IntRange(n, mix.Buyers).Draw(t, "wallets")
		m := newMeasurement(result.Point{Mix: mix, Load: result.Load{Markets: n, Wallets: wallets}},
			Options{Subject: inRedis, Sites: make([]Site, n)})
		if workers := len(m.all()); len(m.markets) != n || workers != mix.Sellers+mix.Buyers {
			t.Fatalf("%d workers in %d markets", workers, len(m.markets))
		}

		for _, in := range m.markets {
			spend := map[market.UserID]bool{}
			sell := map[market.UserID]bool{}
			for _, w := range m.in(in) {
				if w.role == seller {
					sell[w.account] = true
				} else {
					spend[w.account] = true
				}
			}

			// Sellers' accounts come first: the last account is a buyer's, and no seller's.
			p := in.point
			whole := market.UserID(opening(p).Accounts)
			if len(sell) != p.Mix.Sellers || len(spend) != p.Wallets || sell[whole] || !spend[whole] {
				t.Errorf("of %s with %d accounts there are sellers %v and buyers %v",
					p.Mix, p.Wallets, sell, spend)
			}
		}
	})
}

// TestSeveralMarkets: each is traded in, audited and removed, and a row without a cluster has
// no masters.
func TestSeveralMarkets(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		for _, strategy := range []string{"lua", "watch", "fine:queue"} {
			c := several(t, s, strategy, 3)
			c.buys(60)
			row, err := c.run(t.Context())
			if err != nil || !row.Audit.Done || !row.Audit.OK || row.Bought < 60 || row.Masters != nil {
				t.Errorf("%s: bought %d, masters %v, audit %+v, %v",
					strategy, row.Bought, row.Masters, row.Audit, err)
			}

			if name := strategy + " 6x7 markets=3"; row.Name() != name || len(row.PerBuyer) != 7 {
				t.Errorf("the row is %s, of %d buyers", row.Name(), len(row.PerBuyer))
			}
			gone(t, s, c.Keys)
		}
	})
}

// TestEachMarketIsAudited: coins that come from nowhere are found in whichever market it is,
// which the problem names.
func TestEachMarketIsAudited(t *testing.T) {
	t.Parallel()
	s := testkit.Embedded(t)
	conn := testkit.Dial(t, s)

	for i := range 3 {
		c := several(t, s, "lua", 3)
		c.timed(time.Second)
		m := newMeasurement(c.Point, c.Options)
		at := c.Sites[i].Keys

		row, err := m.drive(t.Context(), func() error {
			for _, w := range m.sellers {
				testkit.Succeeds(t, w.listNext(t.Context()))
			}
			return conn.HIncrBy(t.Context(), at.User(1), "funds", 5).Err()
		})
		if err != nil || !row.Audit.Done || row.Audit.OK || row.Audit.MoneyProblems != 1 {
			t.Fatalf("market %d: audit %+v, %v", i+1, row.Audit, err)
		}

		problem := row.Audit.Problems[0]
		if !strings.HasPrefix(problem, at.Prefix()+" account of user 1") {
			t.Errorf("market %d: %s", i+1, problem)
		}
		gone(t, s, c.Keys)
	}
}

// TestFirstMarketStays while another cannot be removed: its note says where that is, and the
// error names the prefix of the run, which removes both.
func TestFirstMarketStays(t *testing.T) {
	t.Parallel()
	s := testkit.Embedded(t)
	conn := testkit.Dial(t, s)
	c := several(t, s, "lua", 3)
	c.timed(time.Second)
	second := c.Sites[1].Keys
	row, err := newMeasurement(c.Point, c.Options).drive(t.Context(), func() error {
		testkit.Succeeds(t, conn.Del(t.Context(), second.Run()).Err())
		return conn.Set(t.Context(), second.Run(), "somebody's", 0).Err()
	})
	if err == nil ||
		!strings.Contains(err.Error(), "marketsim clean --redis URL --prefix "+c.Keys.Prefix()+"'") ||
		!row.Warned(result.KeysStay) {
		t.Errorf("%v, warnings %v", err, row.Warnings)
	}

	others, err := marketstore.OtherMarkets(t.Context(), conn, c.Keys, c.Sites[0].Keys)
	if err != nil || !slices.Equal(others, []market.Keys{second, c.Sites[2].Keys}) {
		t.Errorf("the first market notes %v, %v", others, err)
	}
	gone(t, s, c.Sites[2].Keys)
}

// TestSeedIsRefused: a row that cannot open its second market removes the first.
func TestSeedIsRefused(t *testing.T) {
	t.Parallel()
	s := testkit.Embedded(t)
	c := several(t, s, "lua", 2)
	conn := testkit.Dial(t, s)
	theirs := c.Sites[1].Keys.Run()
	testkit.Succeeds(t, conn.HSet(t.Context(), theirs, "accounts", 1).Err())
	if _, err := c.run(t.Context()); !errors.Is(err, marketstore.ErrOccupied) {
		t.Errorf("%v, want %v", err, marketstore.ErrOccupied)
	}
	if left := under(t, s, c.Keys.Prefix()); !slices.Equal(left, []string{theirs}) {
		t.Errorf("there are %v, want what was there before", left)
	}
}

// TestRehearsalOfSeveral is in the first market's place, and leaves nothing.
func TestRehearsalOfSeveral(t *testing.T) {
	t.Parallel()
	s := testkit.Embedded(t)
	c := several(t, s, "fine", 3)
	if _, err := Rehearse(t.Context(), c.Point, c.Options); err != nil {
		t.Error(err)
	}
	gone(t, s, c.Keys)
}

// TestMasters: what each master did is what its own workers and its own main thread did.
func TestMasters(t *testing.T) {
	p := result.Point{Mix: result.Mix{Sellers: 3, Buyers: 3}, Load: result.Load{Markets: 3}}
	m := newMeasurement(p, Options{
		Subject:  inRedis,
		Duration: 2 * time.Second,
		Sites:    make([]Site, 3),
	})
	m.window.begin(0, m.Duration)
	m.meters = []*meter{{addr: "10.0.0.1:6379"}, {addr: "127.0.0.1:6379", here: true}}
	for i, in := range m.markets {
		in.server = m.meters[i%2]
	}
	for i, w := range m.buyers { // of the markets 1, 2 and 3
		w.tally.count[bought] = int64(10 * (i + 1))
	}
	counts := func(a, b int64) []redisconn.Counts {
		return []redisconn.Counts{{Commands: a}, {Commands: b}}
	}
	m.first = reading{at: time.Unix(0, 0), servers: []float64{5, -1}, byServer: counts(100, 200)}
	m.last = reading{at: time.Unix(2, 0), servers: []float64{5.5, 3}, byServer: counts(400, 250)}

	row := result.Row{Seconds: 2}
	m.addMasters(&row)
	if len(row.Masters) != 2 {
		t.Fatalf("masters %+v", row.Masters)
	}
	a, b := row.Masters[0], row.Masters[1]
	if a.Address != "10.0.0.1:6379" || a.Here || a.Markets != 2 || a.Bought != 40 ||
		*a.Commands != 300 || *a.CPU != 0.5 {
		t.Errorf("the first did %+v", a)
	}
	if !b.Here || b.Markets != 1 || b.Bought != 20 || *b.Commands != 50 || b.CPU != nil {
		t.Errorf("the second, which did not tell, did %+v", b)
	}

	if used := m.last.since(m.first); used.serverKnown || used.server != 0 {
		t.Errorf("all together used %+v, and one did not tell", used)
	}
	m.first.servers[1] = 2
	if used := m.last.since(m.first); !used.serverKnown || used.server != 1.5 || used.busiest != 1 {
		t.Errorf("all together used %+v, want 1.5 s", used)
	}

	alone := result.Row{Seconds: 2}
	m.meters = m.meters[:1]
	m.addMasters(&alone)
	if alone.Masters != nil {
		t.Errorf("a single server is told as masters: %+v", alone.Masters)
	}
}
