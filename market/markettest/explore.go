package markettest

import (
	"context"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/explore"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// Explore goes through every schedule of the Purchasers that open makes within bounds, as package explore says, in each of its
// programs. Those of three clients are explored with one preemption and one fault at most. It needs no server. The test
// fails where the audit finds something, with the shortest schedule to it.
func Explore(t *testing.T, open func(testing.TB, Worker) market.Purchaser, b explore.Bounds) {
	t.Helper()
	for _, m := range explore.Markets() {
		if m.Apart { // as one-item, for who knows of a server of the locks
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			opens := func(ctx context.Context, s *explore.Session, keys market.Keys) (market.Purchaser, io.Closer, error) {
				conn, err := s.Dial(ctx)
				if err != nil {
					return nil, nil, err
				}
				more := func(ctx context.Context) (*redis.Client, error) { return backend.Client(s.Dial(ctx)) }
				return open(s.T, Worker{Conn: conn, Dial: more, Keys: keys}), conn, nil
			}
			b := b
			if len(m.Trades) > 2 {
				b.Preemptions, b.Faults = min(b.Preemptions, 1), min(b.Faults, 1)
			}
			if r := explore.Run(t, m.Program(t.Name(), opens), b); len(r.Found) > 0 {
				t.Errorf("\n%s", r)
			} else {
				t.Log(r)
			}
		})
	}
}
