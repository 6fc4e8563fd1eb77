package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// Defaults of a row.
const (
	DefaultDuration = 10 * time.Second
	DefaultWarmup   = time.Second
	DefaultSeed     = 1
	DefaultFunds    = 1_000_000_000_000    // so rich that no buyer ever runs out
	MaxFunds        = 1_000 * DefaultFunds // exact in a script's numbers, too, and no sum of it overflows
)

// ErrConfig is returned, wrapped, for a configuration that cannot be run.
var ErrConfig = errors.New("invalid configuration")

// ErrUndeclared is returned, wrapped, when a row on a private server left keys that its Subject does not list. On a
// user's server they would stay for good.
var ErrUndeclared = errors.New("keys that nobody declared")

// A Subject makes the Purchasers to be measured. A strategies.Spec is one.
type Subject interface {
	// String names the subject in results.
	String() string
	// Open makes a Purchaser for one worker; the closer is never nil.
	Open(strategies.Env) (market.Purchaser, io.Closer, error)
	// LockKeys enumerates the keys, besides the market's own, that a run may have left.
	LockKeys(market.Keys, market.Made) iter.Seq[string]
}

// Config is one row to be measured.
type Config struct {
	Subject Subject
	Mix     result.Mix
	Trial   int // from 1; 0 means 1

	Duration time.Duration // measured time
	Warmup   time.Duration // before that, not counted
	// Purchases, if not zero, ends the row after so many purchases instead of after Duration. It goes without warm-up.
	Purchases int64

	// Rate, if not zero, makes the loop open: so many orders a second fall due, as Arrivals says, whether or not a buyer
	// is free. It goes without Purchases.
	Rate     float64
	Arrivals Arrivals

	// Workload is in what the market differs from the book's. A hot one has no sellers and no Rate, and Funds that
	// pay for any item. Replies are not
	// delayed to locks that are kept elsewhere than in Redis.
	result.Workload

	// Browsers look at listings beside the mix, under a shared lock; torn reads are counted. The subject's
	// Purchaser must be a market.Browser whose lock can be shared.
	Browsers int

	Seed    uint64
	Funds   int64 // each account's starting coins
	Wallets int   // all buyers spend from so many accounts; 0: each from its own

	Keys market.Keys
	Dial func(context.Context) (*backend.Conn, error) // connects to the market's server
	// Sites, if there are any, are the markets of the row, in place of the one of Keys and Dial. The workers, wallets and hot
	// items are divided among them, and each is audited and removed as one alone is. Several have no History.
	Sites []Site
	// Servers are those that the subject's lock needs besides.
	Servers lock.Servers
	Keep    bool // leave the market in Redis
	// Private says that the server holds nothing else and ends with the run: it does not matter if keys cannot be
	// removed, and those that nobody declared are looked for.
	Private bool
	// History is a folder into which every operation is recorded, for package history to judge; empty: none.
	History string

	// steps returns what observes the steps of a worker, and may hold it there; nil: nothing does.
	steps func(Role) step.Observer
}

// A Site is where one market of a row lies.
type Site struct {
	Keys market.Keys
	Node string // the address of its server when the row begins, for the result
	Dial func(context.Context) (*backend.Conn, error)
}

// validate returns ErrConfig, wrapped, for what cannot be run.
func (c Config) validate() error {
	switch {
	case c.Mix.Sellers < 0 || c.Mix.Sellers == 0 && c.Hot == 0 || c.Mix.Buyers < 1:
		return fmt.Errorf("%w: mix %s: at least one seller and one buyer are needed", ErrConfig, c.Mix)
	case c.Purchases == 0 && c.Duration <= 0:
		return fmt.Errorf("%w: duration %s must be positive", ErrConfig, c.Duration)
	case c.Purchases < 0:
		return fmt.Errorf("%w: %d purchases: the number must not be negative", ErrConfig, c.Purchases)
	case c.Purchases > 0 && c.Warmup > 0:
		return fmt.Errorf("%w: %d purchases after a warm-up: those of the warm-up would count", ErrConfig, c.Purchases)
	case c.Warmup < 0:
		return fmt.Errorf("%w: warm-up %s must not be negative", ErrConfig, c.Warmup)
	case c.Mix.Sellers > MaxWorkers || c.Mix.Buyers > MaxWorkers ||
		c.Browsers > MaxWorkers-c.Mix.Sellers-c.Mix.Buyers:
		return fmt.Errorf("%w: mix %s with %d browsers: at most %d workers in all", ErrConfig, c.Mix, c.Browsers, MaxWorkers)
	case c.Browsers < 0:
		return fmt.Errorf("%w: %d browsers: the number must not be negative", ErrConfig, c.Browsers)
	case c.Funds < 0 || c.Funds > MaxFunds:
		return fmt.Errorf("%w: funds %d: want 0 to %d", ErrConfig, c.Funds, int64(MaxFunds))
	case c.Wallets < 0 || c.Wallets > c.Mix.Buyers:
		return fmt.Errorf("%w: %d wallets for %d buyers: at most one each", ErrConfig, c.Wallets, c.Mix.Buyers)
	case c.Rate != 0 && c.Purchases != 0:
		return fmt.Errorf("%w: %d purchases at a rate: a row ends after a time or after a number of purchases", ErrConfig,
			c.Purchases)
	}
	if err := c.checkSites(); err != nil {
		return err
	}
	if err := c.checkWorkload(); err != nil {
		return err
	}
	if c.Rate != 0 {
		return checkRate(c.Rate, c.Arrivals)
	}
	return nil
}

// Name tells the row from the others of its trial, as result.Row.Name does.
func (c Config) Name() string {
	return result.RowName(c.Subject.String(), c.Mix, c.Workload, c.Rate)
}

// opening is the market the row starts with: the sellers' accounts first, then the buyers'.
func (c Config) opening() market.Opening {
	return market.Opening{Accounts: c.Mix.Sellers + c.wallets(), Funds: c.Funds, Strategy: c.Subject.String()}
}

func (c Config) wallets() int {
	if c.Wallets > 0 {
		return c.Wallets
	}
	return c.Mix.Buyers
}

// account is the account of the i-th worker of a role, from 0, or its first one. A browser has none.
func (c Config) account(r Role, i int) market.UserID {
	switch r {
	case Seller:
		return market.UserID(1 + i)
	case Buyer:
		return market.UserID(1 + c.Mix.Sellers + i%c.wallets())
	}
	return 0
}

// MaxWorkers bounds the workers of a row: beyond it one process does not measure Redis, but itself.
const MaxWorkers = 1_000

// ParseMix reads a mix such as "5x1". It returns ErrConfig, wrapped, when the text is not one, and for a mix of more than
// MaxWorkers.
func ParseMix(text string) (result.Mix, error) {
	m, ok := result.ReadMix(text)
	if !ok || m.Sellers < 1 || m.Buyers < 1 {
		return result.Mix{}, fmt.Errorf("%w: mix %q: want SELLERSxBUYERS with at least one of each and at most %d workers, "+
			"such as 5x1", ErrConfig, text, MaxWorkers)
	}
	return bounded(m)
}

// ParseHotMix reads the mix of a market whose items circulate, which has no sellers, such as "0x5". Its errors are those
// of ParseMix.
func ParseHotMix(text string) (result.Mix, error) {
	m, ok := result.ReadMix(text)
	if !ok || m.Sellers > 0 || m.Buyers < 1 {
		return result.Mix{}, fmt.Errorf("%w: mix %q: where hot items circulate nobody but buyers sells: want 0xBUYERS, "+
			"such as 0x5", ErrConfig, text)
	}
	return bounded(m)
}

func bounded(m result.Mix) (result.Mix, error) {
	if max(m.Sellers, m.Buyers) > MaxWorkers || m.Sellers+m.Buyers > MaxWorkers {
		return result.Mix{}, fmt.Errorf("%w: mix %q: a row has at most %d workers, sellers and buyers together",
			ErrConfig, m, MaxWorkers)
	}
	return m, nil
}
