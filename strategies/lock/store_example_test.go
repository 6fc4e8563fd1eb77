package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
)

// A table is a store outside Redis, such as one of a database, in which an order is
// written. It checks nothing, or what two kinds of constraint check.
type table struct {
	fenced, unique bool

	fence  int64 // a column: the largest fencing token that has read or written
	orders []string
}

var errStale = errors.New("a later holder has been here")

// read registers the holder: UPDATE items SET fence = $1 WHERE id = $2 AND fence < $1. No
// row changes if a later holder has been here, or one of the same number, which a counter
// gives again that was set back.
func (s *table) read(fence int64) error {
	if s.fenced && fence <= s.fence {
		return errStale
	}
	s.fence = fence
	return nil
}

// write is INSERT INTO orders, in one transaction with SELECT ... WHERE fence =
// $1 FOR UPDATE.
func (s *table) write(buyer string, fence int64) error {
	switch {
	case s.fenced && fence != s.fence:
		return errStale
	case s.unique && len(s.orders) > 0:
		return errors.New("duplicate key: the item is sold")
	}
	s.orders = append(s.orders, buyer)
	return nil
}

// What a lock in Redis guards need not be in Redis. The holder pauses, its lease runs
// out, and the next one buys; then the first writes late. The lock cannot prevent it. The
// store can: by a column with the fencing token, which each holder registers with its
// first read, or by a unique key.
func Example_store() {
	ctx := context.Background()
	server, err := backend.Embedded{}.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	for _, way := range []struct {
		name  string
		store table
	}{
		{"plain", table{}},
		{"a column with the fence", table{fenced: true}},
		{"a unique key", table{unique: true}},
	} {
		var fences []int64
		for range 2 { // the second takes the lock when the first one's lease has run out
			conn, locker := instance(ctx, server, "fenced", 10*time.Millisecond)
			defer conn.Close()

			lease, err := locker.Acquire(ctx, way.name)
			if err != nil {
				log.Fatal(err)
			}
			if err := way.store.read(lease.Fence); err != nil {
				log.Fatal(err)
			}
			fences = append(fences, lease.Fence)
		}

		errSecond := way.store.write("second", fences[1])
		errFirst := way.store.write("first", fences[0]) // it wakes
		fmt.Printf("%s: second: %v, first: %v, sold %d times\n",
			way.name, errSecond, errFirst, len(way.store.orders))
	}

	// Output:
	// plain: second: <nil>, first: <nil>, sold 2 times
	// a column with the fence: second: <nil>, first: a later holder has been here, sold 1 times
	// a unique key: second: <nil>, first: duplicate key: the item is sold, sold 1 times
}
