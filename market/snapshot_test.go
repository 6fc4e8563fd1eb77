package market_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/wire"
)

// TestSnapshotIsNotTorn: an item that is listed while the market is read lies in one place.
func TestSnapshotIsNotTorn(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		w := newWorld(t, s)
		proxy, err := wire.Start(s.Target)
		w.must(err)
		defer proxy.Close()
		conn, err := backend.Dial(w.ctx, proxy.Target())
		w.must(err)
		defer conn.Close()
		trap := proxy.Hold(wire.Match{Command: "zrange"})
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
		case <-time.After(10 * time.Second):
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

// TestSnapshotRefusesHalfACoin: a price that is not whole is no price, and not the one below it.
func TestSnapshotRefusesHalfACoin(t *testing.T) {
	w := newWorld(t, backendtest.Embedded(t))
	w.must(w.conn.ZAdd(w.ctx, w.keys.Market(), redis.Z{Score: 40.5, Member: "7.1"}).Err())
	if s, err := market.ReadSnapshot(w.ctx, w.conn, w.keys, 3); err == nil {
		t.Errorf("read %v", s.Listings)
	}
}
