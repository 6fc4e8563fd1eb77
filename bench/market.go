package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
)

// auditTimeout and removeTimeout bound the work on a server that may be dying, where a market is small; one of a
// million items more takes millionTimeout longer at most.
const (
	auditTimeout   = 5 * time.Minute
	removeTimeout  = time.Minute
	millionTimeout = 30 * time.Second
)

// timeFor returns a context that ends when a market in which items up to last were minted should have been read or
// removed.
func timeFor(ctx context.Context, timeout time.Duration, last market.ItemID) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, timeout+time.Duration(float64(last)/1e6*float64(millionTimeout)))
}

// lastMinted is the highest id of an item that the clients who kept the ledgers may have minted.
func lastMinted(ledgers []*market.Ledger) (last market.ItemID) {
	for _, l := range ledgers {
		last = max(last, l.LastMinted())
	}
	return last
}

// ErrKeysLost is returned, wrapped, for a row whose server has lost keys. What an audit then finds is the server's
// doing, or may be: there is no verdict on the strategy.
var ErrKeysLost = errors.New("the server lost keys of the run")

// rowMarket is a market of a row: what its workers share, and what the driver does with it before and after the load.
// Each method uses a connection of its own.
type rowMarket struct {
	Config                   // the row's, with this market's part of the workers
	node    string           // as Site.Node
	others  []market.Keys    // of the first of several: those of the others, which its note names
	first   market.Keys      // of the others: those of the first
	process lock.Process     // what the locks of its workers share
	cluster *backend.Cluster // that it lies on; nil: it lies on none, or was not seeded
	home    backend.Target   // of a cluster: the master it lay on then
	ours    bool             // keys under its prefix are the row's
	kept    keeping          // when the market was seeded
	warns   []string         // what the audit found out about the server, without a verdict that is wrong for it

	shared      atomic.Pointer[backend.Conn] // a connection of all its workers; nil: each has its own only
	circulation *market.Circulation          // of a hot market
	relisted    *bell                        // of a hot market
	stock       stock                        // of an open loop
}

// connect connects a worker.
func (m *rowMarket) connect(ctx context.Context) (*backend.Conn, error) {
	return m.Dial(m.delayed(ctx))
}

// keeping is how well a server has kept its keys. What it does not tell is empty.
type keeping struct {
	process string // changes when the server is started again
	evicted int64  // keys, since then
	policy  string // which keys it evicts
}

func readKeeping(ctx context.Context, conn *backend.Conn) keeping {
	fields, err := conn.InfoFields(ctx, "default")
	if err != nil {
		return keeping{} // miniredis, which evicts nothing
	}
	evicted, _ := strconv.ParseInt(fields["evicted_keys"], 10, 64)
	return keeping{process: fields["run_id"], evicted: evicted, policy: fields["maxmemory_policy"]}
}

// evictions says how many keys the server has evicted since the market was seeded, and what to do about it; empty:
// none.
func (m *rowMarket) evictions(now keeping) string {
	n := now.evicted
	if now.process == m.kept.process {
		n -= m.kept.evicted
	}
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("the server evicted %s during the row, locks and accounts among them as it may be: "+
		"its maxmemory-policy is %s; set noeviction, or raise maxmemory", english.Plural(int(n), "key", ""), now.policy)
}

// lost returns ErrKeysLost, wrapped, if the server has lost keys that only the run itself removes.
func (m *rowMarket) lost(ctx context.Context, conn *backend.Conn) error {
	now := readKeeping(ctx, conn)
	if evicted := m.evictions(now); evicted != "" {
		return fmt.Errorf("%w: %s", ErrKeysLost, evicted)
	}
	if now.process != m.kept.process && !m.moved(ctx, conn.Addr()) {
		return fmt.Errorf("%w: it was started again during the row, or another server took its place: "+
			"what was not on disk, or not replicated, is gone", ErrKeysLost)
	}
	missing, err := market.Missing(ctx, conn.Client, m.Keys, m.opening())
	if err != nil || missing == "" {
		return err
	}
	return fmt.Errorf("%w: %s is gone or was made anew, and no strategy removes it: did somebody flush the database, or remove "+
		"keys under %s?", ErrKeysLost, missing, m.Keys.Prefix())
}

// moved reports whether the market's slot is served at now and has left the master that it was on, which goes on: nothing is
// lost by that.
func (m *rowMarket) moved(ctx context.Context, now string) bool {
	if m.cluster == nil || now == m.home.Addr {
		return false
	}
	conn, err := backend.Dial(ctx, m.home)
	if err != nil {
		return false
	}
	defer conn.Close()
	fields, err := conn.InfoFields(ctx, "replication")
	return err == nil && fields["role"] == "master"
}

// unserved adds to an error which shows that a master of the market's cluster is gone what to do about it.
func (m *rowMarket) unserved(err error) error {
	if m.cluster == nil || !backend.Redirected(err) && !backend.Broken(err) {
		return err
	}
	other := slices.IndexFunc(m.cluster.Masters(), func(master backend.Target) bool { return master.Addr != m.home.Addr })
	return fmt.Errorf("a master of the cluster is gone, with what it had acknowledged and no replica had: %w; see that every slot "+
		"is served (redis-cli --cluster check %s), and run it again", err, m.cluster.Masters()[max(other, 0)].Addr)
}

// seed opens the market. What half a seeding left is ours, too; it is not when the server cannot be reached or the
// prefix is, or may be, somebody else's.
func (m *rowMarket) seed(ctx context.Context) (ours bool, err error) {
	conn, err := m.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	m.kept = readKeeping(ctx, conn)
	if m.cluster = conn.Cluster(); m.cluster != nil {
		m.home = m.cluster.Master(m.Keys.Prefix())
	}
	opening := m.opening()
	opening.Others, opening.First = m.others, m.first
	err = market.Seed(ctx, conn.Client, m.Keys, opening)
	if errors.Is(err, market.ErrUnclaimed) && backend.Broken(err) {
		err = fmt.Errorf("%w; a note of this run may be there: if no other run uses the prefix, remove it with 'marketsim clean "+
			"--prefix %s'", err, m.Keys.Prefix())
	}
	return !errors.Is(err, market.ErrOccupied) && !errors.Is(err, market.ErrUnclaimed), err
}

// noAudit is the verdict on a market that was not audited.
func noAudit() result.Audit { return result.Audit{Problems: []string{}} }

// audit judges the market that the workers left. It returns ErrKeysLost, wrapped, in place of a verdict on what the server
// did.
func (m *rowMarket) audit(ctx context.Context, ledgers []*market.Ledger) (result.Audit, error) {
	ctx, cancel := timeFor(ctx, auditTimeout, lastMinted(ledgers))
	defer cancel()
	a, err := m.judge(ctx, ledgers)
	if err != nil {
		return noAudit(), fmt.Errorf("the market could not be audited: %w", err)
	}
	return a, nil
}

// judge is audit. An audit during which the market's slot moved is made again: a scan of one server that goes on at another
// may leave items out.
func (m *rowMarket) judge(ctx context.Context, ledgers []*market.Ledger) (a result.Audit, err error) {
	conn, err := m.Dial(ctx)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	var v market.AuditResult
	for from := ""; from != conn.Addr() && err == nil; {
		from = conn.Addr()
		v, err = market.Audit(ctx, conn.Client, m.Keys, m.opening(), ledgers...)
	}
	if err != nil {
		return a, err
	}
	if !v.OK() {
		if err := m.lost(ctx, conn); err != nil {
			return a, err
		}
	} else if warning := m.evictions(readKeeping(ctx, conn)); warning != "" {
		m.warns = append(m.warns, warning)
	}
	return result.Audit{
		Done: true, OK: v.OK(), Items: v.Items, Funds: v.Funds, ItemProblems: v.ItemProblems,
		MoneyProblems: v.MoneyProblems, Applied: v.Applied, NotApplied: v.NotApplied,
		Problems: append([]string{}, v.Problems...),
	}, nil
}

// createHistory opens the row's history; nil without one.
func (m *rowMarket) createHistory() (*history.Writer, error) {
	if m.History == "" {
		return nil, nil
	}
	return history.Create(m.History, history.Header{
		Run: m.Keys.Prefix(), Subject: m.Subject.String(), Mix: m.Mix.String(), Seed: m.Seed,
		Accounts: m.opening().Accounts, Funds: m.Funds,
	})
}

// finishHistory closes the history with what the market holds when no worker trades any more. If that cannot be read,
// the history stays without an end, and gets no verdict.
func (m *rowMarket) finishHistory(ctx context.Context, h *history.Writer) error {
	if h == nil {
		return nil
	}
	final, err := m.snapshot(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("the history in %s has no end: %w", m.History, err), h.Abandon())
	}
	return h.Finish(final)
}

func (m *rowMarket) snapshot(ctx context.Context) (market.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	conn, err := m.Dial(ctx)
	if err != nil {
		return market.Snapshot{}, err
	}
	defer conn.Close()
	return market.ReadSnapshot(ctx, conn.Client, m.Keys, m.opening().Accounts)
}

// remove deletes the market: what its note says that the run made, and the workers, who know of items up to last. A failure
// names the command that repeats it, for all markets of the row.
func (m *rowMarket) remove(ctx context.Context, last market.ItemID) error {
	ctx, cancel := timeFor(ctx, removeTimeout, last)
	defer cancel()
	if err := m.removeUpTo(ctx, last); err != nil {
		return fmt.Errorf("keys of the run are left behind: %w; remove them with 'marketsim clean --prefix %s'",
			err, cmp.Or(m.first, m.Keys).Prefix())
	}
	return nil
}

func (m *rowMarket) removeUpTo(ctx context.Context, last market.ItemID) error {
	conn, err := m.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	made, err := market.ReadMade(ctx, conn.Client, m.Keys)
	if err != nil && !errors.Is(err, redis.Nil) && !errors.Is(err, market.ErrNote) { // the server may have lost it
		return err
	}
	made.Accounts, made.Items = m.opening().Accounts, max(last, made.Items)
	_, err = market.Remove(ctx, conn.Client, m.Keys, made, m.Subject.LockKeys(m.Keys, made))
	return err
}

// undeclared returns ErrUndeclared, wrapped, if a private server, which holds nothing but the row's markets, still has
// keys when they are removed, or another master of its cluster has. Where that cannot be found out it says nothing.
func (m *rowMarket) undeclared(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	all := []func(context.Context) (*backend.Conn, error){m.Dial}
	if m.cluster != nil {
		all = nil
		for _, master := range m.cluster.Masters() {
			all = append(all, func(ctx context.Context) (*backend.Conn, error) { return backend.Dial(ctx, master) })
		}
	}
	var left []string
	for _, dial := range all {
		conn, err := dial(ctx)
		if err != nil {
			continue
		}
		defer conn.Close()
		for keys := conn.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); {
			left = append(left, keys.Val())
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s left %d, such as %s; its lock's Keys have to list every key that it makes, under the prefix",
		ErrUndeclared, m.Subject, len(left), slices.Min(left))
}
