package servers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

func TestMasterIsNotKilledWhenNobodyWouldTakeOver(t *testing.T) {
	err := (&Sentinel{cut: time.Now().Add(-promotable)}).KillMaster()
	if err == nil || !strings.Contains(err.Error(), "kill it sooner") {
		t.Errorf("killing it too late after the cut: %v", err)
	}
}

// AwaitWithoutOne awaits the sentinels after one has ended, whom the others have forgotten.
func (s *Sentinel) AwaitWithoutOne(ctx context.Context) error {
	if err := s.watchers[0].kill(); err != nil {
		return err
	}
	for _, w := range s.watchers[1:] {
		conn, err := backend.Dial(ctx, backend.Target{Network: "tcp", Addr: w.addr})
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.Do(ctx, "sentinel", "reset", watchedName).Err(); err != nil {
			return err
		}
	}
	return s.await(ctx)
}
