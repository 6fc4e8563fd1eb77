package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
)

// ErrKeysLost is returned, wrapped, for a row whose server has lost keys: then there
// is no verdict on the strategy.
var ErrKeysLost = errors.New("the server lost keys of the run")

// A serverState is what tells whether a server has kept its keys. What the server does not tell is empty.
type serverState struct {
	process string // changes when the server is started again
	evicted int64  // keys, since then
	policy  string // which keys it evicts
}

func readServerState(ctx context.Context, conn *redisconn.Conn) serverState {
	fields, err := conn.InfoFields(ctx, "default")
	if err != nil {
		return serverState{} // miniredis, which evicts nothing
	}
	evicted, _ := strconv.ParseInt(fields["evicted_keys"], 10, 64)
	return serverState{process: fields["run_id"], evicted: evicted, policy: fields["maxmemory_policy"]}
}

// evictions is how many keys the server has evicted since the market was seeded; 0
// if it was started again since.
func (m *rowMarket) evictions(now serverState) int64 {
	if now.process != m.atStart.process {
		return 0
	}
	return now.evicted - m.atStart.evicted
}

// checkKeysLost returns ErrKeysLost, wrapped, if the server has evicted any key, or lost keys that
// only the run itself removes.
func (m *rowMarket) checkKeysLost(ctx context.Context, conn *redisconn.Conn) error {
	now := readServerState(ctx, conn)
	if n := m.evictions(now); n > 0 {
		return fmt.Errorf("%w: it evicted %d during the row, possibly locks and accounts among them: "+
			"its maxmemory-policy is %s; set noeviction, or raise maxmemory", ErrKeysLost, n, now.policy)
	}
	if now.process != m.atStart.process {
		return fmt.Errorf("%w: it was started again during the row, or another server took its place: "+
			"what was not on disk, or not replicated, is gone", ErrKeysLost)
	}

	missing, err := marketstore.MissingKey(ctx, conn.Client, m.Keys, opening(m.point))
	if err != nil || missing == "" {
		return err
	}
	return m.keyGone(missing)
}

// explain says what to do about an error which shows that a master of the market's
// cluster is gone, or serves the market no longer. Any other error, and nil, stays as it is.
func (m *rowMarket) explain(err error) error {
	if m.cluster == nil || !redisconn.Redirected(err) && !redisconn.ConnectionBroken(err) {
		return err
	}

	// The command may ask any other master; with one master alone it names that one.
	other := slices.IndexFunc(m.cluster.Masters(), func(master redisconn.Target) bool {
		return master.Addr != m.home.Addr
	})
	return fmt.Errorf("a master of the cluster is gone, with what it had acknowledged and no replica had, "+
		"or serves the market's slot no longer: %w; "+
		"see that every slot is served (redis-cli --cluster check %s), and run it again",
		err, m.cluster.Masters()[max(other, 0)].Addr)
}

// How often a row checks that its server still has the keys that only the run removes.
const keyLooks = time.Second

// silenceLimit is how long a server may give no reply in a row of that length; this
// process itself may be 0.1 s late.
func silenceLimit(row time.Duration) time.Duration {
	return min(max(row/10, 100*time.Millisecond), time.Second)
}

// A silenceMeter finds the longest time in which nothing came from a server, by looking
// again and again at how many bytes have come so far. Times are on the window's clock.
type silenceMeter struct {
	received int64 // bytes, as of the last look
	came     int64 // when a look last found more of them
	looked   int64 // when the last look was
	longest  time.Duration
}

// look notes how many bytes have come until now. The silence counts up to the look before:
// what came since may be unread.
func (s *silenceMeter) look(received, now int64) {
	if received != s.received {
		s.received = received
		s.came = now
	}
	s.longest = max(s.longest, time.Duration(s.looked-s.came))
	s.looked = now
}

// guard asks the server of a market for replies until the load has ended, and notes the
// longest time in which nothing came from it, neither here nor to a worker of the market. It
// fails the row when keys are gone that only the run removes.
func (m *measurement) guard(ctx context.Context, in *rowMarket) {
	conn := in.server.conn
	between := silenceLimit(m.Duration) / 10
	reply := in.replyWaiter(ctx, conn)

	// Until the end one call of ask is under way or due, so that the last receive ends.
	replied := make(chan error, 1)
	ask := func() { replied <- reply() }
	go ask()

	workers := m.in(in)
	meter := silenceMeter{received: -1} // the first look finds more
	look := time.NewTicker(between)
	defer look.Stop()
	for {
		select {
		case <-m.window.done:
			<-replied // after which this guard uses conn no more
			in.longestSilence = meter.longest
			return

		case lost := <-replied:
			time.AfterFunc(between, ask)
			if lost != nil {
				m.window.fail(lost)
			}

		case <-look.C:
			received := conn.Stats.Snapshot().BytesReceived
			for _, w := range workers {
				received += w.carried.Snapshot().BytesReceived
			}
			// In the warm-up the time stands at 0, so that no silence counts.
			meter.look(received, max(0, m.window.at(time.Now())))
		}
	}
}

// replyWaiter returns a function that waits for a reply of the server, for one goroutine at a
// time. Every keyLooks it checks that no key is lost. Its error, if any, is ErrKeysLost,
// wrapped: a server that does not answer is no error.
func (m *rowMarket) replyWaiter(ctx context.Context, conn *redisconn.Conn) func() error {
	looked := time.Now()
	return func() error {
		if time.Since(looked) < keyLooks {
			_ = conn.Ping(ctx).Err() // any answer is one
			return nil
		}

		missing, err := marketstore.MissingKey(ctx, conn.Client, m.Keys, opening(m.point))
		if err == nil { // otherwise the next reply looks again
			looked = time.Now()
		}
		if err != nil || missing == "" {
			return nil
		}

		why := m.checkKeysLost(ctx, conn)
		if !errors.Is(why, ErrKeysLost) { // the server cannot be asked why, or does not say
			why = m.keyGone(missing)
		}
		return why
	}
}

func (m *rowMarket) keyGone(key string) error {
	return fmt.Errorf("%w: %s is gone or was made anew, and no strategy removes it: "+
		"did somebody flush the database, or remove keys under %s?", ErrKeysLost, key, m.Keys.Prefix())
}
