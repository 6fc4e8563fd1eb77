package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
)

// auditTimeout and removeTimeout bound work on a market of millions of items,
// whose server may be dying.
const (
	auditTimeout  = 5 * time.Minute
	removeTimeout = 2 * time.Minute
)

// ErrKeysLost is returned, wrapped, for a row whose server has lost keys: then there
// is no verdict on the strategy.
var ErrKeysLost = errors.New("the server lost keys of the run")

// ErrUndeclared is returned, wrapped, if a row leaves keys that its Subject does not
// list. A user's server keeps them.
var ErrUndeclared = errors.New("keys that nobody declared")

// rowMarket is the market of a row: what its workers share, and what the driver does with
// it before and after the load.
type rowMarket struct {
	Options                    // the row's
	point   result.Point       // the row's
	process lock.Process       // what the locks of its workers share
	cluster *redisconn.Cluster // that it lies on; nil: it lies on none, or was not seeded
	home    redisconn.Target   // the master of that cluster on which it lay when it was seeded
	ours    bool               // keys under its prefix are the row's
	kept    keeping            // when the market was seeded

	shared   atomic.Bool // workers share a connection, and nobody can tell what it carries for whom
	relisted *bell       // of a hot market
	stock    int         // listings when a row begins; sellers of an open loop keep as many up
	// How many are missing; one too many while one is bought before its seller
	// has counted it.
	missing atomic.Int64
	silent  time.Duration // the longest time in which its server gave no reply, since the warm-up
}

func newMarket(p result.Point, o Options) *rowMarket {
	return &rowMarket{
		Options:  o,
		point:    p,
		stock:    listings(p),
		relisted: &bell{Cond: sync.NewCond(new(sync.Mutex))},
	}
}

// servers are those that workers connect to, as far away as the row says.
func (m *rowMarket) servers() connect.Servers {
	late := func(d redisconn.Dialer) redisconn.Dialer { return d.WithDelay(rtt(m.point)) }
	s := m.Servers.Each(late)
	s.Market = s.Market.WithWrap(m.noteShared)
	return s
}

// noteShared notes that a connection is one that workers share.
func (m *rowMarket) noteShared(ctx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {
	conn, err := dial(ctx)
	if err == nil && conn.Shared() {
		m.shared.Store(true)
	}
	return conn, err
}

// keeping is how well a server has kept its keys. What the server does not tell is empty.
type keeping struct {
	process string // changes when the server is started again
	evicted int64  // keys, since then
	policy  string // which keys it evicts
}

func readKeeping(ctx context.Context, conn *redisconn.Conn) keeping {
	fields, err := conn.InfoFields(ctx, "default")
	if err != nil {
		return keeping{} // miniredis, which evicts nothing
	}
	evicted, _ := strconv.ParseInt(fields["evicted_keys"], 10, 64)
	return keeping{process: fields["run_id"], evicted: evicted, policy: fields["maxmemory_policy"]}
}

// evictions is how many keys the server has evicted since the market was seeded; 0
// if it was started again since.
func (m *rowMarket) evictions(now keeping) int64 {
	if now.process != m.kept.process {
		return 0
	}
	return now.evicted - m.kept.evicted
}

// lost returns ErrKeysLost, wrapped, if the server has evicted any key, or lost keys that
// only the run itself removes.
func (m *rowMarket) lost(ctx context.Context, conn *redisconn.Conn) error {
	now := readKeeping(ctx, conn)
	if n := m.evictions(now); n > 0 {
		return fmt.Errorf("%w: it evicted %d during the row, possibly locks and accounts among them: "+
			"its maxmemory-policy is %s; set noeviction, or raise maxmemory", ErrKeysLost, n, now.policy)
	}
	if now.process != m.kept.process {
		return fmt.Errorf("%w: it was started again during the row, or another server took its place: "+
			"what was not on disk, or not replicated, is gone", ErrKeysLost)
	}
	missing, err := marketstore.MissingKey(ctx, conn.Client, m.Keys, opening(m.point))
	if err != nil || missing == "" {
		return err
	}
	return m.without(missing)
}

// unserved says what to do about an error which shows that a master of the market's
// cluster is gone, or serves the market no longer.
func (m *rowMarket) unserved(err error) error {
	if m.cluster == nil || !redisconn.Redirected(err) && !redisconn.Broken(err) {
		return err
	}

	other := slices.IndexFunc(m.cluster.Masters(), func(master redisconn.Target) bool {
		return master.Addr != m.home.Addr
	})
	return fmt.Errorf("a master of the cluster is gone, with what it had acknowledged and no replica had, "+
		"or serves the market's slot no longer: %w; "+
		"see that every slot is served (redis-cli --cluster check %s), and run it again",
		err, m.cluster.Masters()[max(other, 0)].Addr)
}

// seed opens the market, and reports whether keys under its prefix are the row's: they
// may be even after a failure.
func (m *rowMarket) seed(ctx context.Context) (ours bool, err error) {
	conn, err := m.Servers.Market.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()

	m.kept = readKeeping(ctx, conn)
	m.cluster = conn.Cluster()
	if m.cluster != nil {
		m.home = m.cluster.Master(m.Keys.Prefix())
	}

	err = marketstore.Seed(ctx, conn.Client, m.Keys, opening(m.point))
	if errors.Is(err, marketstore.ErrUnclaimed) && redisconn.Broken(err) {
		err = fmt.Errorf("%w; a note of this run may be there: if no other run uses the prefix, "+
			"remove it with 'marketsim clean --redis URL --prefix %s'", err, m.Keys.Prefix())
	}
	return !errors.Is(err, marketstore.ErrOccupied) && !errors.Is(err, marketstore.ErrUnclaimed), err
}

// audit judges the market by the ledgers of its workers, which must not trade meanwhile.
// An error means that it could not be read, or, wrapping ErrKeysLost, that its server did
// not keep it: then there is no verdict.
func (m *measurement) audit(ctx context.Context, row *result.Row) (result.Audit, error) {
	ledgers, _ := m.ledgers()
	v, evicted, err := m.market.judge(ctx, ledgers)
	if err != nil {
		return result.Audit{}, fmt.Errorf("the market could not be audited: %w", err)
	}
	if evicted > 0 {
		row.Warn(result.Evicted, float64(evicted), "")
	}

	a := result.Audit{
		Done:          true,
		OK:            v.OK(),
		Items:         v.Items,
		Funds:         v.Funds,
		ItemProblems:  v.ItemProblems,
		MoneyProblems: v.MoneyProblems,
		Applied:       v.Applied,
		NotApplied:    v.NotApplied,
	}
	for _, problem := range v.Problems {
		a.Problems = append(a.Problems, problem.Text)
	}
	return a, nil
}

func (m *measurement) ledgers() (all []*market.Ledger, last market.ItemID) {
	for _, w := range m.all() {
		all = append(all, w.ledger)
		last = max(last, w.ledger.LastMinted())
	}
	return all, last
}

// judge audits the market. If it finds nothing wrong, evicted is how many keys
// the server evicted.
func (m *rowMarket) judge(
	ctx context.Context, ledgers []*market.Ledger,
) (v market.AuditResult, evicted int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	conn, err := m.Servers.Market.Dial(ctx)
	if err != nil {
		return v, 0, err
	}
	defer conn.Close()
	v, err = market.Audit(ctx, conn.Client, m.Keys, opening(m.point), ledgers...)
	switch {
	case err != nil:
		return v, 0, err
	case v.OK():
		return v, m.evictions(readKeeping(ctx, conn)), nil
	}
	return v, 0, m.lost(ctx, conn)
}

func (m *rowMarket) createHistory() (*history.Writer, error) {
	if m.History == "" {
		return nil, nil
	}
	return history.Create(m.History, history.Header{
		Run: m.Keys.Prefix(), Subject: m.point.Spec(), Mix: m.point.Mix.String(), Seed: m.Seed,
		Accounts: opening(m.point).Accounts, Funds: funds(m.point),
	})
}

// finishHistory closes the history with what the market holds in the end, without
// which a history gets no verdict.
func (m *rowMarket) finishHistory(ctx context.Context, h *history.Writer) error {
	if h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	conn, err := m.Servers.Market.Dial(ctx)
	if err == nil {
		defer conn.Close()
		var final market.Snapshot
		final, err = market.ReadSnapshot(ctx, conn.Client, m.Keys, opening(m.point).Accounts)
		if err == nil {
			return h.Finish(final)
		}
	}
	return errors.Join(fmt.Errorf("the history in %s has no end: %w", m.History, err), h.Abandon())
}

// remove deletes the market if it was seeded. A failure names the command that tries again.
func (m *measurement) remove(ctx context.Context) error {
	if !m.market.ours {
		return nil
	}
	_, last := m.ledgers()
	err := m.market.remove(ctx, last)
	switch {
	case err != nil && m.Private:
		return nil // the server ends with its keys
	case err != nil:
		return fmt.Errorf("keys of the run are left behind: %w; "+
			"remove them with 'marketsim clean --redis URL --prefix %s'", err, m.Keys.Prefix())
	case m.Private:
		return m.market.undeclared(ctx)
	}
	return nil
}

// remove deletes the market: what the run made according to its note, and items up to
// last, which its workers know of.
func (m *rowMarket) remove(ctx context.Context, last market.ItemID) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	conn, err := m.Servers.Market.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	made, err := marketstore.ReadNote(ctx, conn.Client, m.Keys)
	noteLost := errors.Is(err, redis.Nil) || errors.Is(err, marketstore.ErrNote)
	if err != nil && !noteLost {
		return err
	}
	made.Accounts = opening(m.point).Accounts
	made.Items = max(last, made.Items)
	_, err = marketstore.Remove(ctx, conn.Client, m.Keys, made, m.Subject.LockKeys(m.Keys, made))
	return err
}

// undeclared returns ErrUndeclared, wrapped, if a private server, or a master of its
// cluster, still has keys after the row's market is removed: it held nothing else. A
// master that cannot be asked is left out.
func (m *rowMarket) undeclared(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()

	all := []redisconn.Dialer{m.Servers.Market}
	if m.cluster != nil {
		all = nil
		for _, master := range m.cluster.Masters() {
			all = append(all, redisconn.To(master))
		}
	}

	var left []string
	for _, dialer := range all {
		conn, err := dialer.Dial(ctx)
		if err != nil {
			continue
		}
		defer conn.Close()
		for keys := conn.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); {
			if m.Subject.Elsewhere() { // a program keeps there what it likes
				_ = conn.Del(ctx, keys.Val())
				continue
			}
			left = append(left, keys.Val())
		}
	}

	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s left %d, such as %s; its lock's Keys have to list every key that it makes, "+
		"under the prefix", ErrUndeclared, m.Subject, len(left), slices.Min(left))
}

// How often a row checks that its server still has the keys that only the run removes.
const keyLooks = time.Second

// silence is how long a server may give no reply in a row of that length; this
// process itself may be 0.1 s late.
func silence(row time.Duration) time.Duration {
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

// guard asks the server of the market for replies until the load has ended, and notes the
// longest time in which nothing came from it, neither here nor to a worker. It fails the
// row when keys are gone that only the run removes.
func (m *measurement) guard(ctx context.Context, conn *redisconn.Conn) {
	between := silence(m.Duration) / 10
	reply := m.market.replies(ctx, conn)
	replied := make(chan error, 1)
	ask := func() { replied <- reply() }
	go ask()

	workers := m.all()
	meter := silenceMeter{received: -1} // the first look finds more
	look := time.NewTicker(between)
	defer look.Stop()
	for {
		select {
		case <-m.window.done:
			<-replied // after which nobody uses conn any more
			m.market.silent = meter.longest
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
			meter.look(received, max(0, m.window.at(time.Now())))
		}
	}
}

// replies returns a function that waits for a reply of the server. Every keyLooks
// it checks that no key is lost.
func (m *rowMarket) replies(ctx context.Context, conn *redisconn.Conn) func() error {
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
		why := m.lost(ctx, conn)
		if !errors.Is(why, ErrKeysLost) { // it cannot be asked why
			why = m.without(missing)
		}
		return why
	}
}

func (m *rowMarket) without(key string) error {
	return fmt.Errorf("%w: %s is gone or was made anew, and no strategy removes it: "+
		"did somebody flush the database, or remove keys under %s?", ErrKeysLost, key, m.Keys.Prefix())
}
