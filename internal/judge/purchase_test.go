package judge

import (
	"testing"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// A schedule begins with the market, and with nothing that the program has left in any
// database, such as the lock of a client that was killed.
func TestShopOpensWithoutWhatWasLeft(t *testing.T) {
	ctx := t.Context()
	conn := testkit.Dial(t, testkit.Embedded(t))
	for _, database := range []int{1, 0} { // the last is the market's
		testkit.Succeeds(t, conn.Do(ctx, "SELECT", database).Err())
		testkit.Succeeds(t, conn.Set(ctx, "lock", "", 0).Err())
	}

	s := &shop{Market: suite.Markets()[0], conn: conn}
	testkit.Succeeds(t, s.open(ctx))
	if conn.Exists(ctx, "lock").Val() > 0 || conn.Exists(ctx, market.Keys{}.User(1)).Val() == 0 {
		t.Errorf("database 0 holds %q", conn.Keys(ctx, "*").Val())
	}
	testkit.Succeeds(t, conn.Do(ctx, "SELECT", 1).Err())
	if left := conn.Keys(ctx, "*").Val(); len(left) > 0 {
		t.Errorf("database 1 holds %q", left)
	}
}
