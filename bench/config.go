package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
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

// grace is how long an operation in flight may go on after the end of a row: longer than any strategy's time-out, so
// that none is cut short by the driver.
const grace = 12 * time.Second

// failedGrace is the same after the environment failed: whoever waits for a lock then waits in vain.
const failedGrace = time.Second

// ErrConfig is returned, wrapped, for a configuration that cannot be run.
var ErrConfig = errors.New("invalid configuration")

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
	Mix     Mix
	Trial   int // from 1; 0 means 1

	Duration time.Duration // measured time
	Warmup   time.Duration // before that, not counted
	// Purchases, if not zero, ends the row after so many purchases instead of after Duration. It goes without warm-up.
	Purchases int64

	// Browsers look at listings beside the mix, under a shared lock; torn reads are counted. The subject's
	// Purchaser must be a market.Browser whose lock can be shared.
	Browsers int

	Seed    uint64
	Funds   int64 // each account's starting coins
	Wallets int   // all buyers spend from so many accounts; 0: each from its own

	Keys market.Keys
	Dial func(context.Context) (*backend.Conn, error)
	// Servers are those that the subject's lock needs besides.
	Servers lock.Servers
	Keep    bool // leave the market in Redis
	// History is a folder into which every operation is recorded, for package history to judge; empty: none.
	History string
	// Rough, if not nil, makes the row a rough one, for as long as its storm lasts: Duration, Warmup, Purchases and
	// Browsers are not for such rows.
	Rough *Rough
	// Private says that the server ends with the run, so that keys that cannot be removed are nobody's trouble.
	Private bool
}

// validate returns ErrConfig, wrapped, for what cannot be run.
func (c Config) validate() error {
	switch {
	case c.Mix.Sellers < 1 || c.Mix.Buyers < 1:
		return fmt.Errorf("%w: mix %s: at least one seller and one buyer are needed", ErrConfig, c.Mix)
	case c.Purchases == 0 && c.Duration <= 0:
		return fmt.Errorf("%w: duration %s must be positive", ErrConfig, c.Duration)
	case c.Purchases < 0:
		return fmt.Errorf("%w: %d purchases: the number must not be negative", ErrConfig, c.Purchases)
	case c.Purchases > 0 && c.Warmup > 0:
		return fmt.Errorf("%w: %d purchases after a warm-up: those of the warm-up would count", ErrConfig, c.Purchases)
	case c.Warmup < 0:
		return fmt.Errorf("%w: warm-up %s must not be negative", ErrConfig, c.Warmup)
	case c.Rough != nil && (c.Purchases != 0 || c.Browsers != 0 || c.Warmup != 0):
		return fmt.Errorf("%w: a rough row has no warm-up, no browsers and no number of purchases", ErrConfig)
	case c.Browsers < 0:
		return fmt.Errorf("%w: %d browsers: the number must not be negative", ErrConfig, c.Browsers)
	case c.Funds < 0 || c.Funds > MaxFunds:
		return fmt.Errorf("%w: funds %d: want 0 to %d", ErrConfig, c.Funds, int64(MaxFunds))
	case c.Wallets < 0 || c.Wallets > c.Mix.Buyers:
		return fmt.Errorf("%w: %d wallets for %d buyers: at most one each", ErrConfig, c.Wallets, c.Mix.Buyers)
	}
	return nil
}

// opening is the market the row starts with: the sellers' accounts first, then the buyers'.
func (c Config) opening() market.Opening {
	return market.Opening{Accounts: c.Mix.Sellers + c.wallets(), Funds: c.Funds, Strategy: c.Subject.String()}
}

// duration is when time ends the row; 0: never.
func (c Config) duration() time.Duration {
	if c.Purchases > 0 {
		return 0
	}
	return c.Duration
}

func (c Config) wallets() int {
	if c.Wallets > 0 {
		return c.Wallets
	}
	return c.Mix.Buyers
}

// seller and buyer are the accounts of the i-th of each, from 0.
func (c Config) seller(i int) market.UserID { return market.UserID(1 + i) }
func (c Config) buyer(i int) market.UserID {
	return market.UserID(1 + c.Mix.Sellers + i%c.wallets())
}
