package market_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

const (
	millionItems = 1_000_000
	auditTime    = 15 * time.Second
	auditMemory  = 256 << 20
)

func TestAuditOfAMillionItemsIsQuickAndSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	w := newWorld(t, backendtest.Local(t))
	for minted := 2 * market.BatchSize; minted < millionItems; minted += market.BatchSize {
		w.mintAndListHalf()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	v := w.audit()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	t.Logf("audited %d items in %s, the heap grew by %d MiB to %d MiB", v.Items, took.Round(time.Millisecond),
		(int64(after.HeapSys)-int64(before.HeapSys))>>20, after.HeapSys>>20)
	if !v.OK() || v.Items != millionItems {
		t.Errorf("%d of %d items are sound: %q", v.Items, millionItems, v.Problems)
	}
	// The whole heap, because the audit may reuse what was grown before it.
	if took > auditTime || after.HeapSys > auditMemory {
		t.Errorf("it took %s and a heap of %d MiB; at most %s and %d MiB are allowed",
			took, after.HeapSys>>20, auditTime, auditMemory>>20)
	}
}

// mintAndListHalf mints a batch for user 1 and puts every other item on the market.
func (w *world) mintAndListHalf() {
	w.Helper()
	first, err := market.Mint(w.ctx, w.conn, w.keys, 1)
	w.must(err)
	w.ledger.Minted(first, 1, nil)
	var listed []redis.Z
	var moved []any
	for item := first; item < first+market.BatchSize; item += 2 {
		listed = append(listed, redis.Z{Score: 30, Member: market.Member(item, 1)})
		moved = append(moved, int64(item))
		w.ledger.Listed(market.Listing{Item: item, Seller: 1, Price: 30}, nil)
	}
	w.must(w.conn.ZAdd(w.ctx, w.keys.Market(), listed...).Err())
	w.must(w.conn.SRem(w.ctx, w.keys.Inventory(1), moved...).Err())
}
