package market

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/marketsim/marketsim/market/step"
)

// UserID names an account. Accounts of a run are numbered 1, 2, 3, ... without gaps.
type UserID int64

// ItemID names an item. Ids are unique across a market and are minted in dense batches.
type ItemID int64

// A Listing is a seller's wish to offer an item: from the seller's inventory to the market.
type Listing struct {
	Item   ItemID
	Seller UserID
	Price  int64 // coins
}

// An Order is a buyer's wish to buy a listed item at the price the buyer saw.
type Order struct {
	Item   ItemID
	Seller UserID
	Buyer  UserID
	Price  int64 // coins, as seen while browsing
}

// A Receipt says what one operation cost, whether or not it was applied, but
// for what the connection counts.
type Receipt struct {
	Retries int // EXEC aborts and lock acquisition time-outs
	Polls   int // failed attempts to take a lock, each followed by a wait

	// Parts of the operation's time. None overlaps another, so that they add up to no
	// more than the whole.

	// From the first attempt to take a lock until all were held, or one could not be had.
	LockWait time.Duration
	LockHold time.Duration // from then until the last one was released
	Thrown   time.Duration // in tries that were thrown away, each followed by another or by giving up

	LeaseLost bool // a lock turned out to be lost after the write was made
	// How many locks could not be released, for another reason than that they were lost.
	ReleasesFailed int
}

// A Purchaser moves items between inventories and the market. One Purchaser serves one
// worker and owns its connections, as one process does in the book; its methods are not
// safe for concurrent use. An [Open] makes it.
//
// A nil error means applied. An error for which [Refused] is true means certainly not
// applied. Any other error means that the outcome is unknown. The Receipt is
// meaningful in all three cases.
type Purchaser interface {
	// List moves an item from its seller's inventory to the market.
	List(ctx context.Context, l Listing) (Receipt, error)

	// Purchase moves a listed item to the buyer's inventory and the price from buyer to
	// seller. It returns the first of ErrNotListed, ErrPriceChanged and
	// ErrInsufficientFunds for which the order cannot be met.
	Purchase(ctx context.Context, o Order) (Receipt, error)
}

// A ClientEnv is what every client of a market has, whatever it does there: a [Worker], and
// what strategies and locks are opened with.
type ClientEnv struct {
	Number int // of the worker, from 0, among all of a row, or of a test
	// Dial connects to the market's server, whatever network and address it is given, and
	// has logged in there: client libraries take it as their dialer, with any other
	// options, and need neither address nor password. Whoever tests the client holds
	// these connections, and whoever measures it counts on them.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Told of each step that the client wants to be observed and held at; may be nil.
	Steps step.Observer
	Now   func() time.Time // the client's wall clock; nil: the true one
}

// A Worker is what one Purchaser is made with.
type Worker struct {
	ClientEnv
	// LockServers are servers that locks have of their own, to which Dial connects where
	// it is given one of these addresses; empty: locks live in the market's server.
	LockServers []string
	Keys        Keys

	// What clients of marketsim's own strategies do. A Purchaser with a client of its own
	// decides that itself.
	ReplyTimeout time.Duration // for how long they wait for a reply; 0: 5 s
	Resends      bool          // they send a command again whose reply did not come
}

// An Open makes the Purchaser of one worker: bench.Measure measures what it makes,
// markettest.Check checks it, and markettest.Explore goes through its schedules. The
// context is the worker's life: what the Purchaser does in the background ends with it.
// The closer, such as a client of the worker's, is closed after that; it may be nil.
type Open func(ctx context.Context, w Worker) (Purchaser, io.Closer, error)

// For makes the Purchaser of a worker that is done when the closer, which is
// never nil, is closed: that ends the worker's context, and then closes what open returned.
// On an error it has done so itself, and returns no closer.
func (open Open) For(ctx context.Context, w Worker) (Purchaser, io.Closer, error) {
	ctx, end := context.WithCancel(ctx)
	purchaser, closer, err := open(ctx, w)
	life := ending(func() error {
		end()
		if closer == nil {
			return nil
		}
		return closer.Close()
	})

	if err != nil {
		return nil, nil, errors.Join(err, life.Close())
	}
	return purchaser, life, nil
}

type ending func() error

func (e ending) Close() error { return e() }

// A Browser reads an item while nobody can change it; several can do so at the same
// time. Each serves one worker.
type Browser interface {
	// Browse looks whether an item is listed. Errors are those of a Purchaser
	// that writes nothing.
	Browse(ctx context.Context, l Listing) (Receipt, error)
}

// The errors that mean "certainly not applied". A Purchaser wraps them; test
// with errors.Is or [Refused].
var (
	// Of Purchase.
	ErrNotListed         = refusal("not_listed", "item is not listed")
	ErrPriceChanged      = refusal("price_changed", "price has changed")
	ErrInsufficientFunds = refusal("insufficient_funds", "insufficient funds")
	ErrNotOwned          = refusal("not_owned", "item is not in the seller's inventory")
	// ErrContended: its transaction kept being aborted, or its lock was held by others
	// for the whole acquisition time-out.
	ErrContended = refusal("contended", "gave up under contention")
	ErrLockLost  = refusal("lock_lost", "lock was lost before the write")
	ErrStale     = refusal("stale", "a later holder of the lock has registered at the market")
	// ErrRejected: before EXEC ran, such as out of memory, by a read-only replica, or for
	// want of an ACL permission.
	ErrRejected = refusal("rejected", "server rejected the operation")
	// ErrWithdrawn is of a write of unknown outcome, whose connection was ended.
	ErrWithdrawn = refusal("withdrawn", "write was withdrawn before the server executed it")
	// ErrNotSent: the connection broke while it was reading, or its context ended
	// while it waited for a lock.
	ErrNotSent = refusal("not_sent", "operation ended before its first write was sent")
)

// refused is one of these errors, with the name that it has in results.
type refused struct{ name, text string }

func (r refused) Error() string { return r.text }

// refusals has each by its name.
var refusals = map[string]error{}

func refusal(name, text string) error {
	refusals[name] = refused{name, text}
	return refusals[name]
}

// Refused reports whether err means that the operation was certainly not applied.
// It is false for nil (applied).
func Refused(err error) bool { return Reason(err) != "" }

// Refusal is the error that [Reason] gives a name; nil if it gives it to none.
func Refusal(reason string) error { return refusals[reason] }

// Reason names why an operation was refused, as results spell it. It is empty for
// nil and for an unknown outcome.
func Reason(err error) string {
	is, _ := errors.AsType[refused](err)
	return is.name
}
