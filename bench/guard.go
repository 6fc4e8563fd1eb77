package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// keyLooks is how often a row looks whether its server still has the keys that only the run removes.
const keyLooks = time.Second

// silence is for how long a server may give no reply in a row that lasts so long: a tenth of it, and at most a second. In rows
// of less than a second it is 0.1 s, because this process may be as late.
func silence(row time.Duration) time.Duration {
	return min(max(row/10, 100*time.Millisecond), time.Second)
}

// guard asks the server of a market for a reply, again and again until the load has ended, over a meter's connection. It fails
// the row when keys are gone that only the run removes: where workers wait for each other, or make anew what they miss, none of
// them would tell. And it notes the longest time in which nothing came from the server, neither to it nor to a worker.
func (m *measurement) guard(ctx context.Context, in *rowMarket, conn *backend.Conn) {
	pause, looked, missing := silence(m.length())/10, time.Now(), make(chan string, 1)
	ask := func() {
		var key string
		var err error
		if time.Since(looked) < keyLooks {
			_ = conn.Ping(ctx).Err() // any answer is one
		} else if key, err = market.Missing(ctx, conn.Client, in.Keys, opening(in.point)); err != nil {
			key = "" // who cannot look knows nothing
		} else {
			looked = time.Now()
		}
		missing <- key
	}
	go ask()
	look, workers := time.NewTicker(pause), m.in(in)
	defer look.Stop()
	for came, last, before := int64(-1), int64(0), int64(0); ; {
		select {
		case <-m.window.done:
			<-missing
			return
		case key := <-missing:
			if time.AfterFunc(pause, ask); key != "" {
				m.window.fail(in.without(key))
			}
		case <-look.C:
			received, now := conn.Stats.Snapshot().BytesReceived, max(0, m.window.at(time.Now()))
			for _, w := range workers {
				received += w.carried.Snapshot().BytesReceived
			}
			if received != came {
				came, last = received, now
			}
			in.silent = max(in.silent, time.Duration(before-last)) // now, where this process stood still, replies may not be read yet
			before = now
		}
	}
}

// without is the failure of a row whose server has lost a key.
func (m *rowMarket) without(key string) error {
	return fmt.Errorf("%w: %s is gone or was made anew, and no strategy removes it: did somebody flush the database, or remove "+
		"keys under %s?", ErrKeysLost, key, m.Keys.Prefix())
}
