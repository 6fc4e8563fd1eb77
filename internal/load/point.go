package load

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/param"
)

// Defaults of a row.
const (
	DefaultDuration = 10 * time.Second
	DefaultWarmup   = time.Second
	DefaultSeed     = 1
	DefaultFunds    = 1_000_000_000_000 // so rich that no buyer ever runs out
)

// Limits of a row.
const (
	MaxWorkers = 1_000 // beyond it one process measures itself, and not Redis
	// Exact in a script's numbers, too, and no sum of it overflows.
	MaxFunds = 1_000 * DefaultFunds
	MaxHot   = 1_000_000 // items that circulate
	// Of each account if items circulate: somebody can then always pay.
	LeastHotFunds = maxPrice
	// Items listed before a row: their ledgers and audit take 130 MB, as measured.
	MaxStock    = 1_000_000
	MaxPrograms = 20                     // workers that are processes
	MinWait     = 100 * time.Microsecond // package alarm is exact to about half of it
	MinDuration = time.Millisecond       // a shorter row ends before a worker has begun
	// Like MaxRTT, it leaves a purchase's round trips time to end.
	MaxHold = 10 * time.Second
	MaxRTT  = time.Second
	// MaxRate is the highest rate in orders a second. Orders are due at whole
	// nanoseconds, no two at the same one, which makes this rate wrong by less than a
	// thousandth. A worker needs about 0.1 us to take one from the schedule.
	MaxRate = 1_000_000
)

// Options are how rows are measured.
type Options struct {
	Subject  strategies.Spec // what Point.Strategy names; of your own strategy: strategies.Own
	Trial    int             // the row's number among those of its point, from 1; 0 is 1
	Duration time.Duration   // measured time
	Warmup   time.Duration   // before that, not counted
	// Orders of an open loop that take longer are late; 0: only those that
	// bought nothing are.
	SLO  time.Duration
	Seed uint64

	Keys    market.Keys           // of the market or, with Sites, of the run
	Servers connect.MarketServers // where the market is, and the locks
	// Sites, if any, are the row's markets, in place of Keys and Servers.Market: workers,
	// wallets, items and stock are divided among them.
	Sites []Site
	Keep  bool // leave the market in Redis
	// The server ends with the run: keys may stay, and a row looks for those
	// that nobody declared.
	Private bool
	// A folder for a record of all trade (not of looks), which package history
	// judges; empty: none.
	History string

	// Progress is told the row so far: when its load begins, with Began alone, and at the end
	// of each interval of its Course, with Seconds, Bought and WaitMS, too. These are of the
	// purchases that have ended. No worker waits for it, but the end of the row does. nil:
	// nobody is told.
	Progress func(soFar result.Row)

	// Observes the steps of a worker, and may hold it there; nil: nothing does.
	steps func(role) step.Observer
}

// PointError says why a point cannot be measured with its options.
type PointError struct {
	Field string // the name of the flag that it is about, such as "wallets", "rate" or "mix"
	Why   string
}

// ErrPoint is what a PointError is.
var ErrPoint = errors.New("it cannot be measured")

func (e *PointError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrPoint, e.Field, e.Why) }

// Is makes a PointError an ErrPoint.
func (e *PointError) Is(target error) bool { return target == ErrPoint }

// Validate returns a *PointError for what cannot be measured.
func (o Options) Validate(p result.Point) error {
	for _, check := range []func(result.Point) *PointError{
		o.checkTimes, o.checkDelays, o.checkPrograms, checkMix, checkAccounts, checkItems, o.checkMarkets,
	} {
		if err := check(p); err != nil {
			return err
		}
	}
	return nil
}

// refused says why a field is refused.
func refused(field, why string, args ...any) *PointError {
	return &PointError{field, fmt.Sprintf(why, args...)}
}

// checkTimes is about how long a row lasts, and when its orders are due and late.
func (o Options) checkTimes(p result.Point) *PointError {
	switch {
	case o.Duration < MinDuration:
		return refused("duration", "%s: want %s or more", o.Duration, MinDuration)

	case o.Warmup < 0:
		return refused("warmup", "it must not be negative")

	case !(p.Rate >= 0 && p.Rate <= MaxRate): // NaN is refused, too
		return refused("rate", "%s orders/s: want more than 0 and at most %s, "+
			"beyond which they cannot be told apart in time", humanize.Commaf(p.Rate), humanize.Comma(MaxRate))

	case p.Arrivals != "" && p.Arrivals != result.ConstantArrivals:
		return refused("arrivals", "%q: want %s, or nothing for those of a Poisson process", p.Arrivals,
			result.ConstantArrivals)

	case p.Arrivals != "" && p.Rate == 0:
		return refused("arrivals", "it is for orders at a rate")

	case o.SLO < 0 || o.SLO > 0 && p.Rate == 0:
		return refused("slo", "it must be a positive time, and is for orders at a rate")
	}
	return nil
}

// checkDelays is about what makes operations and replies slower.
func (o Options) checkDelays(p result.Point) *PointError {
	kind, _ := o.Subject.Lock() // without a lock the zero Kind, which needs nothing
	switch {
	case !delays(p.HoldMS, MaxHold):
		return refused("hold", "%s: want 0, or %s to %s", hold(p), MinWait, MaxHold)

	case !delays(p.RTTMS, MaxRTT):
		return refused("rtt", "%s: want 0, or %s to %s", rtt(p), MinWait, MaxRTT)

	case p.RTTMS > 0 && !kind.Needs.InRedis():
		return refused("rtt", "it delays replies of Redis; the lock of %s is kept elsewhere", p.Strategy)
	}
	return nil
}

// delays reports whether a row can delay something by so much: not at all, or exactly
// enough.
func delays(ms float64, most time.Duration) bool {
	d := milliseconds(ms)
	return ms == 0 || d >= MinWait && d <= most
}

// checkPrograms is about the programs of --exec, of which marketsim sees little.
func (o Options) checkPrograms(p result.Point) *PointError {
	if !o.Subject.Elsewhere() {
		return nil
	}
	switch {
	case p.RTTMS > 0:
		return refused("rtt", "it cannot delay the programs of %s: they connect to the server directly", p.Strategy)

	case p.HoldMS > 0:
		return refused("hold", "it cannot hold the programs of %s between their reads and writes", p.Strategy)

	case p.Mix.Sellers+p.Mix.Buyers > MaxPrograms: // a sum that overflows is checkMix's to refuse
		return refused("mix", "%s: each worker of %s is a process: at most %d in all",
			p.Mix, p.Strategy, MaxPrograms)
	}
	return nil
}

// checkMix is about who trades. The first case refuses negative numbers, on which the last
// one relies.
func checkMix(p result.Point) *PointError {
	nobodySells := p.Mix.Sellers == 0 && p.Hot == 0
	switch {
	case p.Mix.Buyers < 1 || p.Mix.Sellers < 0 || nobodySells:
		return refused("mix", "%s: at least one seller and one buyer are needed, such as 5x1", p.Mix)

	case p.Mix.Sellers > 0 && p.Hot > 0:
		return refused("mix", "%s: nobody but buyers sells hot items: want 0 sellers, such as 0x5", p.Mix)

	case p.Mix.Buyers > MaxWorkers-p.Mix.Sellers: // their sum may be too large for an int
		return refused("mix", "%s: a row has at most %d workers", p.Mix, MaxWorkers)
	}
	return nil
}

// checkAccounts is about the buyers' coins.
func checkAccounts(p result.Point) *PointError {
	switch {
	case p.Wallets < 0 || p.Wallets > p.Mix.Buyers:
		return refused("wallets", "%d for %d buyers: want at most one each", p.Wallets, p.Mix.Buyers)

	case p.Funds < 0 || p.Funds > MaxFunds:
		return refused("funds", "%d: want 0 to %d", p.Funds, int64(MaxFunds))

	case p.Hot > 0 && funds(p) < LeastHotFunds:
		return refused("funds", "%d: want %d or more, or there may be hot items that nobody can pay for",
			p.Funds, LeastHotFunds)
	}
	return nil
}

// checkItems is about what is traded, and which loads exclude each other because of it.
func checkItems(p result.Point) *PointError {
	switch {
	case p.Hot < 0 || p.Hot > MaxHot:
		return refused("hot", "%d items: want 0 to %d", p.Hot, MaxHot)

	case p.Stock < 0 || p.Stock > MaxStock:
		return refused("stock", "%d items: want 0 to %d", p.Stock, MaxStock)

	case p.Stock > 0 && p.Hot > 0:
		return refused("stock", "beside hot items: the items that circulate are all that there is")

	case p.Rate > 0 && p.Hot > 0:
		return refused("rate", "with hot items: buyers that list again are not free when an order is due")

	case p.Empty && (p.Stock > 0 || p.Hot > 0 || p.Rate > 0):
		return refused("empty", "it goes without a stock, hot items and a rate")
	}
	return nil
}

// checkMarkets is about several markets, each of which needs a part of what there is. A
// point of one market has Markets 0; one of several has a Site for each.
func (o Options) checkMarkets(p result.Point) *PointError {
	n := max(1, len(o.Sites))

	// Workers, accounts and items are shared out: where there are fewer than markets, one gets none.
	few := func(field string, there int, of string) *PointError {
		return refused(field, "%d %s for %d markets: each needs one at least", there, of, n)
	}
	switch {
	case p.Markets < 0 || p.Markets == 1 || max(1, p.Markets) != n:
		return refused("markets", "%d, with places for %d: want 2 or more, or 0 for one market", p.Markets, n)

	case n == 1:
		return nil

	case p.Mix.Buyers < n:
		return few("mix", p.Mix.Buyers, "buyers")

	case p.Mix.Sellers < n && p.Hot == 0:
		return few("mix", p.Mix.Sellers, "sellers")

	case p.Hot > 0 && p.Hot < n:
		return few("hot", p.Hot, "items")

	case p.Stock > 0 && p.Stock < n:
		return few("stock", p.Stock, "items")

	case p.Wallets > 0 && p.Wallets < n:
		return few("wallets", p.Wallets, "accounts")

	case o.History != "":
		return refused("history", "want one market: each has a user 1 and an item 1 of its own")
	}
	return nil
}

// limit is a generous one for an operation that ends by itself: a time-out for each
// lock, hold, round trips and 2 s. A row cuts what still goes on after it, so that a limit
// below an operation's own time-outs would cut good operations.
func (o Options) limit(p result.Point) time.Duration {
	const (
		trips = 10
		more  = 2 * time.Second
	)
	longest := time.Duration(0)
	for _, declared := range o.Subject.Params() {
		if declared.Role == param.Timeout {
			text, _ := o.Subject.Value(declared.Name)
			timeout, _ := time.ParseDuration(text) // cannot fail: param has parsed it
			longest = max(longest, timeout)
		}
	}

	if o.Subject.Elsewhere() { // one that says nothing ends the row, with what it was asked
		longest = program.AnswerLimit
	}
	if o.Subject.SeveralLocks() {
		longest *= 2
	}
	return longest + hold(p) + trips*rtt(p) + more
}

func hold(p result.Point) time.Duration { return milliseconds(p.HoldMS) }
func rtt(p result.Point) time.Duration  { return milliseconds(p.RTTMS) }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func funds(p result.Point) int64 { return cmp.Or(p.Funds, DefaultFunds) }

func wallets(p result.Point) int { return cmp.Or(p.Wallets, p.Mix.Buyers) }

// opening is a market when a row begins: the sellers' accounts first, then the buyers'.
func opening(p result.Point) market.Opening {
	return market.Opening{Accounts: p.Mix.Sellers + wallets(p), Funds: funds(p), Strategy: p.Spec()}
}

// account is that of worker i of a role, from 0, in a market with the point p. Buyers share
// accounts if there are fewer wallets than buyers; a seller has one of its own.
func account(p result.Point, r role, i int) market.UserID {
	if r == seller {
		return market.UserID(1 + i)
	}
	return market.UserID(1 + p.Mix.Sellers + i%wallets(p))
}
