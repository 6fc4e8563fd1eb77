package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// ErrUndeclared is returned, wrapped, if a row leaves keys that its Subject does not
// list. A user's server keeps them.
var ErrUndeclared = errors.New("keys that nobody declared")

// rowMarket is a market of a row: what its workers share, and what the driver does with
// it before and after the load.
type rowMarket struct {
	Options                          // the row's, with the place of this market
	point   result.Point             // the row's, with this market's part of workers, accounts and items
	note    *marketstore.SeveralNote // of a run that has several markets; nil: this one alone
	server  *meter                   // of its server; nil: it was not asked for
	process lock.ProcessState        // what the locks of its workers share
	cluster *redisconn.Cluster       // that it lies on; nil: it lies on none, or was not seeded
	home    redisconn.Target         // the master of that cluster on which it lay when it was seeded
	ours    bool                     // keys under its prefix are the row's
	atStart serverState              // when the market was seeded

	shared   atomic.Bool // workers share a connection, and nobody can tell what it carries for whom
	relisted *bell       // of a hot market
	stock    int         // listings when a row begins; sellers of an open loop keep as many up
	// How many are missing; one too many while one is bought before its seller
	// has counted it.
	missing        atomic.Int64
	longestSilence time.Duration // the longest time in which its server gave no reply, since the warm-up
}

// servers are those that workers connect to, as far away as the row says. The driver itself
// dials m.Servers.Market, without the delay.
func (m *rowMarket) servers() connect.MarketServers {
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

// seed opens the market, and reports whether keys under its prefix are the row's: they
// may be even after a failure.
func (m *rowMarket) seed(ctx context.Context) (ours bool, err error) {
	conn, err := m.Servers.Market.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()

	// Before the first key is made: what the server loses from here on counts against it.
	m.atStart = readServerState(ctx, conn)
	m.cluster = conn.Cluster()
	if m.cluster != nil {
		m.home = m.cluster.Master(m.Keys.Prefix())
	}

	err = marketstore.Seed(ctx, conn.Client, m.Keys, opening(m.point))
	if err == nil && m.note != nil {
		err = marketstore.NoteSeveral(ctx, conn.Client, m.Keys, *m.note)
	}
	if errors.Is(err, marketstore.ErrUnclaimed) && redisconn.ConnectionBroken(err) {
		err = fmt.Errorf("%w; a note of this run may be there: if no other run uses the prefix, "+
			"remove it with 'marketsim clean --redis URL --prefix %s'", err, m.Keys.Prefix())
	}
	return !errors.Is(err, marketstore.ErrOccupied) && !errors.Is(err, marketstore.ErrUnclaimed), err
}

// audit judges each market by the ledgers of its workers, which must not trade meanwhile.
// An error means that one could not be read, or, wrapping ErrKeysLost, that its server did
// not keep it: then there is no verdict.
func (m *measurement) audit(ctx context.Context, row *result.Row) (result.AuditSummary, error) {
	all := result.AuditSummary{Done: true, OK: true}
	evicted := map[*meter]int64{} // which counts for the whole server
	for _, of := range m.markets {
		ledgers, _ := m.ledgers(of)
		v, n, err := of.judge(ctx, ledgers)
		if err != nil {
			return result.AuditSummary{}, fmt.Errorf("the market could not be audited: %w", err)
		}
		evicted[of.server] = max(evicted[of.server], n)

		where := ""
		if len(m.markets) > 1 {
			where = of.Keys.Prefix() + " "
		}
		addAudit(&all, v, where)
	}

	var keys int64
	for _, n := range evicted {
		keys += n
	}
	if keys > 0 {
		row.Warn(result.Evicted, float64(keys), "")
	}
	return all, nil
}

// addAudit adds the audit of a market to those of a row. The words where it lies stand before
// each problem.
func addAudit(all *result.AuditSummary, v market.AuditResult, where string) {
	all.OK = all.OK && v.OK()
	all.Items += v.Items
	all.Funds += v.Funds
	all.ItemProblems += v.ItemProblems
	all.MoneyProblems += v.MoneyProblems
	all.Applied += v.Applied
	all.NotApplied += v.NotApplied
	for _, problem := range v.Problems {
		all.Problems = append(all.Problems, where+problem.Text)
	}
}

// ledgers are those of a market's workers, and the last item that they know of.
func (m *measurement) ledgers(of *rowMarket) (all []*market.Ledger, last market.ItemID) {
	for _, w := range m.in(of) {
		all = append(all, w.ledger)
		last = max(last, w.ledger.LastMinted())
	}
	return all, last
}

// judge audits a market. If it finds nothing wrong, evicted is how many keys
// the server evicted.
func (m *rowMarket) judge(
	ctx context.Context, ledgers []*market.Ledger,
) (v market.AuditResult, evicted int64, err error) {
	err = m.onServer(ctx, auditTimeout, func(ctx context.Context, conn *redisconn.Conn) (err error) {
		v, err = market.Audit(ctx, conn.Client, m.Keys, opening(m.point), ledgers...)
		if err != nil {
			return err
		}

		// Lost keys look like a strategy's violations. If the server has lost none, the verdict
		// stands.
		if !v.OK() {
			return m.checkKeysLost(ctx, conn)
		}
		evicted = m.evictions(readServerState(ctx, conn))
		return nil
	})
	return v, evicted, err
}

// onServer works over a connection to the market's server, for at most so long.
func (m *rowMarket) onServer(
	ctx context.Context, limit time.Duration, work func(context.Context, *redisconn.Conn) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := m.Servers.Market.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	return work(ctx, conn)
}

// createHistory returns nil, which records nothing, if the row has no history.
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
// which a history gets no verdict. No worker may trade any more.
func (m *rowMarket) finishHistory(ctx context.Context, h *history.Writer) error {
	if h == nil {
		return nil
	}

	var final market.Snapshot
	err := m.onServer(ctx, auditTimeout, func(ctx context.Context, conn *redisconn.Conn) (err error) {
		final, err = market.ReadSnapshot(ctx, conn.Client, m.Keys, opening(m.point).Accounts)
		return err
	})
	if err == nil {
		return h.Finish(final)
	}
	return errors.Join(fmt.Errorf("the history in %s has no end: %w", m.History, err), h.Abandon())
}

// remove deletes the markets that were seeded, the first one last: it stays if another cannot
// be removed, because its note says where the others are. A failure names the command that
// tries again.
func (m *measurement) remove(ctx context.Context) (err error) {
	first := m.markets[0]
	for _, of := range slices.Backward(m.markets) {
		if !of.ours || of == first && err != nil {
			continue
		}
		_, last := m.ledgers(of)
		failed := of.remove(ctx, last)
		if failed == nil && m.Subject.KeysUnknown() {
			failed = of.removeUnnamed(ctx)
		}
		err = errors.Join(err, failed)
	}

	switch {
	case err != nil && m.Private:
		return nil // the server ends with its keys
	case err != nil:
		return fmt.Errorf("keys of the run are left behind: %w; "+
			"remove them with 'marketsim clean --redis URL --prefix %s'", err, m.Keys.Prefix())
	case m.Private && first.ours:
		return first.checkUndeclared(ctx)
	}
	return nil
}

// remove deletes a market: what the run made according to its note, and items up to
// last, which its workers know of.
func (m *rowMarket) remove(ctx context.Context, last market.ItemID) error {
	return m.onServer(ctx, removeTimeout, func(ctx context.Context, conn *redisconn.Conn) error {
		made, err := marketstore.ReadNote(ctx, conn.Client, m.Keys)
		noteLost := errors.Is(err, redis.Nil) || errors.Is(err, marketstore.ErrNote)
		if err != nil && !noteLost {
			return err
		}

		// Without a note the row knows its accounts, and its ledgers know the items. A note may count
		// more: a batch was reserved, and the reply with the number of its first item was lost.
		made.Accounts = opening(m.point).Accounts
		made.Items = max(last, made.Items)
		_, err = marketstore.Remove(ctx, conn.Client, m.Keys, made, m.Subject.LockKeys(m.Keys, made))
		return err
	})
}

// removeUnnamed deletes every key that begins with the prefix, after the market is removed:
// a program, or a lock of the user's, makes keys of which nobody knows more.
func (m *rowMarket) removeUnnamed(ctx context.Context) error {
	return m.onServer(ctx, removeTimeout, func(ctx context.Context, conn *redisconn.Conn) error {
		literal := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)
		found := conn.Scan(ctx, 0, literal.Replace(m.Keys.Prefix())+"*", 1000).Iterator()
		for found.Next(ctx) {
			if err := conn.Unlink(ctx, found.Val()).Err(); err != nil {
				return err
			}
		}
		return found.Err()
	})
}

// checkUndeclared returns ErrUndeclared, wrapped, if a private server, or a master of its
// cluster, still has keys after the row's markets are removed: it held nothing else. What a
// program has left there is deleted, and is no error. A master that cannot be asked is left
// out.
func (m *rowMarket) checkUndeclared(ctx context.Context) error {
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
			if m.Subject.Elsewhere() { // a program declares no keys
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
