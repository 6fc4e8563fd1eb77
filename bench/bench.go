// Package bench measures: it loads a market with sellers and buyers and records
// what each operation cost.
//
// Package bench/compare says how fast your lock or Purchaser is beside a lock of this module.
//
// [Measure] measures one row: a result.Point under [Options]. A seller mints items in
// batches and lists each; a buyer looks at listings and orders each at the price it saw.
// Minting and looking are not measured. Each worker owns its connection, its Purchaser,
// its tally and its ledger, so that workers share no mutex. The driver prints nothing
// between two operations, and its tallies allocate next to nothing.
//
// A row begins with items listed (with none if Load.Empty is set), warms up for a fixed
// time, and measures for a time T. Then the load goes on, uncounted, until each
// operation that began in T has ended: this is the loaded end, without which the
// longest waits would end in a market that nobody else uses. What was begun after T is
// ended without load, and the market is audited against the ledgers and removed. Three
// kinds of numbers are never mixed:
//
//   - Operations that ended in T: throughput, the purchases of each buyer, the course
//     of a row and its halves.
//   - Operations that began in T, each followed to its end: waits, retries, polls,
//     refusals and round trips.
//   - Read at the two ends of T: processor time, and what connections carried
//     in the background.
//
// The loaded end and the end without load each have a limit, made of the strategy's own
// time-outs. An interrupt, or a server that is gone, skips the loaded end, and the row says
// how many operations had not ended then.
//
// In an open loop orders fall due at times fixed beforehand, whether or not a buyer is
// free. The rate reached and the backlog are as of the end of T. An order that fell due
// in the warm-up and is made in T is left over: it counts in what was done in T, such as
// purchases a second, and in no count of orders and no wait. Orders of T wait behind it.
//
// In a closed loop Little's law checks the driver: the times of a buyer's purchases,
// refused orders, listings and waits for something to buy, each clipped to T, add up to
// the time in which it was there.
package bench

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// Options are how a row is measured. The zero value measures for 10 s on a server of its
// own.
type Options struct {
	// URL is the server's, such as "redis://localhost:6379/2". If it is empty, Measure
	// starts a private redis-server or, where there is none, miniredis, whose numbers are
	// not Redis's.
	URL string

	Load     result.Load   // zero: the usual market
	Duration time.Duration // measured time; 0: 10 s
	Warmup   time.Duration // before that, not counted
	// Orders of an open loop that take longer are late; 0: only those that bought nothing are.
	SLO  time.Duration
	Seed uint64 // from which prices and orders are drawn; 0 is 1

	Keys market.Keys // of the market; zero: under a prefix drawn at random
	Keep bool        // leave the market on the server
	// Private: the server at URL ends with the row: keys may stay, and Measure looks for those
	// that nobody declared.
	Private bool
	// History is a folder for a record of all trade, which 'marketsim check' judges; empty:
	// none.
	History string
}

// Errors of Measure, which it wraps.
var (
	// ErrPoint: the mix, the load and the options do not fit together, as the message says.
	ErrPoint = load.ErrPoint
	// ErrKeysLost: the server lost keys of the row, so that nothing can be said about the
	// Purchaser.
	ErrKeysLost = load.ErrKeysLost
	// ErrUndeclared: a private server was left with keys under no name of market.Keys.
	ErrUndeclared = load.ErrUndeclared
)

// Measure measures one row with the Purchasers that open makes: it seeds a market, loads
// it, audits it and removes it. When ctx ends, the operations in flight are finished, and
// the row is audited and removed all the same; its status is then "interrupted".
//
// After ErrPoint, or where no server can be had, nothing was measured. Any other error means
// that the environment failed: the row holds what was measured until then, "incomplete", and
// audited if that was possible. A market that the audit found wrong is no
// error: see result.Row.Audit.
func Measure(ctx context.Context, open market.Open, mix result.Mix, o Options) (row result.Row, err error) {
	// Without keys the row has some of its own, so that runs beside each other do not meet.
	keys := o.Keys
	if keys == (market.Keys{}) {
		keys, err = load.OwnKeys(o.Load.Markets)
		if err != nil {
			return row, err
		}
	}

	server, err := backend.Open(ctx, o.URL)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	sites, err := load.Sites(server, keys, min(o.Load.Markets, load.MaxWorkers)) // Measure refuses more
	if err != nil {
		return row, err
	}

	subject := strategies.Own("own", open)
	point := result.Point{Strategy: subject.String(), Mix: mix, Load: o.Load}
	return load.Measure(ctx, point, load.Options{
		Subject:  subject,
		Duration: cmp.Or(o.Duration, load.DefaultDuration),
		Warmup:   o.Warmup,
		SLO:      o.SLO,
		Seed:     cmp.Or(o.Seed, load.DefaultSeed),
		Keys:     keys,
		Servers:  connect.MarketServers{Market: server.Dialer(keys.Prefix())},
		Sites:    sites,
		Keep:     o.Keep,
		Private:  o.Private,
		History:  o.History,
	})
}
