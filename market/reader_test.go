package market_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
)

func TestReasonNamesRefusalsOnly(t *testing.T) {
	if market.Reason(nil) != "" || market.Refused(errLost) || market.Reason(market.ErrNotOwned) != "not_owned" {
		t.Error("a reason is given for what is not refused, or none for what is")
	}
}

// TestSnapshotIsNotTorn: an item that is listed while the market is read lies in one place.
func TestSnapshotIsNotTorn(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		w := newWorld(t, s)
		proxy, err := wire.StartRedis(s.Target.Network, s.Target.Addr, s.Target.TLS)
		w.must(err)
		defer proxy.Close()
		conn, err := redisconn.To(s.Target.Through(proxy.Addr())).Dial(w.ctx)
		w.must(err)
		defer conn.Close()

		// The inventories have been read when the listings are asked for: item 7 moves in between.
		trap := proxy.Hold(wire.Match{Command: "zscan"})
		type result struct {
			market.Snapshot
			error
		}
		read := make(chan result, 1)
		go func() {
			s, err := market.ReadSnapshot(w.ctx, conn, w.keys, 3)
			read <- result{s, err}
		}()

		select {
		case <-trap.Reached():
		case <-time.After(time.Minute):
			t.Error("the market's listings are not read")
		}

		w.lists(7, 40, nil)
		trap.Open()
		r := <-read
		w.must(r.error)

		_, offered := r.Listings[market.Member(7, 1)]
		if owned := r.Inventory[1][7]; owned == offered {
			t.Errorf("item 7 is in the inventory: %t, on the market: %t", owned, offered)
		}
	})
}

// TestSnapshotRefusesHalfACoin: a price that is not whole is no price, and not
// the one below it.
func TestSnapshotRefusesHalfACoin(t *testing.T) {
	w := newWorld(t, testkit.Embedded(t))
	w.must(w.conn.ZAdd(w.ctx, w.keys.Market(), redis.Z{Score: 40.5, Member: "7.1"}).Err())
	if s, err := market.ReadSnapshot(w.ctx, w.conn, w.keys, 3); err == nil {
		t.Errorf("read %v", s.Listings)
	}
}
