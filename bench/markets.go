package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// A row has one market, or several at [Config.Sites], such as one on each master of a Redis Cluster. Its workers are
// divided among them: seller i and buyer i work in market i modulo their number, and never in another. What is measured
// is the row as a whole, with one start, one end and one collector.

// MaxMarkets is how many markets a row has at most: each needs a worker.
const MaxMarkets = MaxWorkers

// checkSites returns ErrConfig, wrapped, for what cannot be divided among the markets.
func (c Config) checkSites() error {
	n := len(c.Sites)
	switch {
	case max(c.Markets, 1) != max(n, 1):
		return fmt.Errorf("%w: %d markets and %d sites", ErrConfig, c.Markets, n)
	case n < 2:
		return nil
	case c.Mix.Sellers < n && c.Hot == 0 || c.Mix.Buyers < n:
		return fmt.Errorf("%w: mix %s for %d markets: each needs a seller and a buyer at least", ErrConfig, c.Mix, n)
	case c.Hot > 0 && c.Hot < n:
		return fmt.Errorf("%w: %d hot items for %d markets: each needs one at least", ErrConfig, c.Hot, n)
	case c.Wallets > 0 && c.Wallets < n:
		return fmt.Errorf("%w: %d wallets for %d markets: each needs one at least", ErrConfig, c.Wallets, n)
	case c.History != "":
		return fmt.Errorf("%w: a history of %d markets: want one market, because an account's number is used in each",
			ErrConfig, n)
	}
	return nil
}

// markets are the markets of a row, none of them seeded.
func (c Config) markets() (all []*rowMarket) {
	sites := c.Sites
	if len(sites) == 0 {
		sites = []Site{{Keys: c.Keys, Dial: c.Dial}}
	}
	for i, site := range sites {
		m := &rowMarket{Config: c, node: site.Node, relisted: newBell()}
		m.Keys, m.Dial, m.Sites = site.Keys, site.Dial, nil
		for _, number := range []*int{&m.Mix.Sellers, &m.Mix.Buyers, &m.Browsers, &m.Wallets, &m.Hot, &m.Stock} {
			*number = share(*number, len(sites), i)
		}
		m.stock.wanted = int64(max(enoughStock/len(sites), m.Stock))
		m.stock.listings.Store(int64(m.Stock))
		all = append(all, m)
	}
	for _, m := range all[1:] {
		all[0].others, m.first = append(all[0].others, m.Keys), all[0].Keys
	}
	return all
}

// open seeds the markets, connects the workers and lists what is there from the beginning. On an error none is connected.
func (ws *Workers) open(ctx context.Context) error {
	err := ws.seed(ctx)
	if err == nil {
		err = ws.connect(ctx)
	}
	if err != nil {
		return err
	}
	if err = ws.stock(ctx); err != nil {
		err = errors.Join(err, ws.Close(), ws.history.Discard())
	}
	return err
}

// seed opens the markets. What the first holds says where the others are, so it is there before them.
func (ws *Workers) seed(ctx context.Context) (err error) {
	for _, m := range ws.markets {
		if m.ours, err = m.seed(ctx); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the markets that seed opened, the first one last. It tries that once.
func (ws *Workers) remove(ctx context.Context) error {
	first := ws.markets[0]
	opened := first.ours
	var errs []error
	for _, m := range slices.Backward(ws.markets) {
		if m.ours {
			errs = append(errs, m.remove(ctx, lastMinted(ws.ledgers(m))))
		}
		m.ours = false
	}
	err := errors.Join(errs...)
	switch {
	case !ws.Private || !opened:
		return err
	case err != nil:
		return nil // the server ends with its keys
	default:
		return first.undeclared(ctx)
	}
}

// among are those of some workers who work in the market.
func (m *rowMarket) among(workers []*Worker) (all []*Worker) {
	for _, w := range workers {
		if w.market == m {
			all = append(all, w)
		}
	}
	return all
}

// ledgers are those of a market's workers.
func (ws *Workers) ledgers(of *rowMarket) (all []*market.Ledger) {
	for _, w := range of.among(ws.All()) {
		all = append(all, w.recorder.ledger)
	}
	return all
}

// Audit judges the markets against what their workers know. They must not trade meanwhile. An error means that a market
// could not be read, or, wrapping ErrKeysLost, that its server did not keep it.
func (ws *Workers) Audit(ctx context.Context) (result.Audit, error) {
	all := result.Audit{Done: true, OK: true, Problems: []string{}}
	for _, m := range ws.markets {
		one, err := m.audit(ctx, ws.ledgers(m))
		if err != nil {
			return noAudit(), err
		}
		all.OK = all.OK && one.OK
		all.Items, all.Funds = all.Items+one.Items, all.Funds+one.Funds
		all.ItemProblems, all.MoneyProblems = all.ItemProblems+one.ItemProblems, all.MoneyProblems+one.MoneyProblems
		all.Applied, all.NotApplied = all.Applied+one.Applied, all.NotApplied+one.NotApplied
		for _, problem := range one.Problems {
			if len(ws.markets) > 1 {
				problem = m.Keys.Prefix() + " " + problem
			}
			all.Problems = append(all.Problems, problem)
		}
	}
	return all, nil
}
