package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// keyLooks is how often a row looks whether its server still has the keys that only the run removes.
const keyLooks = time.Second

// silence is for how long a server may give no reply in a row that lasts so long: a tenth of it, and at most a
// second. In rows of less than a second it is 0.1 s, because this process may be as late.
func silence(row time.Duration) time.Duration {
	return min(max(row/10, 100*time.Millisecond), time.Second)
}

// guard asks the server of a market for a reply until the load has ended, over a meter's connection. It fails the row
// when keys are gone that only the run removes: where workers wait for each other, or make anew what they miss, none of
// them would tell. And it notes the longest time in which nothing came from the server, to it or to a worker.
func (m *measurement) guard(ctx context.Context, in *rowMarket, conn *backend.Conn) {
	pause := silence(m.length()) / 10
	reply := in.replies(ctx, conn)
	replied := make(chan error, 1)
	ask := func() { replied <- reply() }
	go ask()
	look := time.NewTicker(pause)
	defer look.Stop()
	workers := m.in(in)
	heard := hearing{bytes: -1}
	for {
		select {
		case <-m.window.done:
			<-replied // so that nobody uses conn any more
			return
		case lost := <-replied:
			time.AfterFunc(pause, ask)
			if lost != nil {
				m.window.fail(lost)
			}
		case <-look.C:
			received := conn.Stats.Snapshot().BytesReceived
			now := max(0, m.window.at(time.Now()))
			for _, w := range workers {
				received += w.carried.Snapshot().BytesReceived
			}
			in.silent = max(in.silent, heard.look(now, received))
		}
	}
}

// replies returns a function that waits for a reply of the server. Every keyLooks it looks whether the server has
// the market's keys, and returns ErrKeysLost, wrapped, if it has not.
func (m *rowMarket) replies(ctx context.Context, conn *backend.Conn) func() error {
	looked := time.Now()
	return func() error {
		if time.Since(looked) < keyLooks {
			_ = conn.Ping(ctx).Err() // any answer is one
			return nil
		}
		missing, err := market.MissingKey(ctx, conn.Client, m.Keys, opening(m.point))
		if err == nil { // who cannot look knows nothing
			looked = time.Now()
		}
		if err != nil || missing == "" {
			return nil
		}
		why := m.lost(ctx, conn)
		if !errors.Is(why, ErrKeysLost) { // it cannot be asked why
			why = m.without(missing)
		}
		return why
	}
}

// A hearing is when a guard heard of its server last. Times are as the row's window tells them.
type hearing struct {
	bytes  int64 // received until the last look
	last   int64 // when a look found that there were more
	before int64 // when the last look was
}

// look notes how many bytes have been received by now. It returns for how long none had come at the look before this
// one: now, where this process stood still, replies may not be read yet.
func (h *hearing) look(now, received int64) time.Duration {
	if received != h.bytes {
		h.bytes = received
		h.last = now
	}
	silent := time.Duration(h.before - h.last)
	h.before = now
	return silent
}

// without is the failure of a row whose server has lost a key.
func (m *rowMarket) without(key string) error {
	return fmt.Errorf("%w: %s is gone or was made anew, and no strategy removes it: "+
		"did somebody flush the database, or remove keys under %s?", ErrKeysLost, key, m.Keys.Prefix())
}
