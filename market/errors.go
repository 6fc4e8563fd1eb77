package market

import "errors"

// The errors that mean "certainly not applied". A Purchaser wraps them; test with errors.Is or [Refused].
var (
	// ErrNotListed is returned by Purchase when the item is not on the market: usually someone else was first.
	ErrNotListed = refusal("not_listed", "item is not listed")

	// ErrPriceChanged is returned by Purchase when the item is listed at another price than the order's.
	ErrPriceChanged = refusal("price_changed", "price has changed")

	// ErrInsufficientFunds is returned by Purchase when the buyer's account holds less than the price.
	ErrInsufficientFunds = refusal("insufficient_funds", "insufficient funds")

	// ErrNotOwned is returned by List when the item is not in the seller's inventory.
	ErrNotOwned = refusal("not_owned", "item is not in the seller's inventory")

	// ErrContended is returned when an operation gave up in time: its transaction kept being aborted, or its
	// lock was held by others for the whole acquisition time-out.
	ErrContended = refusal("contended", "gave up under contention")

	// ErrLockLost is returned when a lock was found to be lost before any write was made.
	ErrLockLost = refusal("lock_lost", "lock was lost before the write")

	// ErrStale is returned, before any write was made, when a later holder of the operation's lock has registered at
	// the market (see the parameter fencing of the locked strategies).
	ErrStale = refusal("stale", "a later holder of the lock has registered at the market")

	// ErrRejected is returned when the server refused a command before EXEC ran, so that nothing was written
	// (out of memory, a read-only replica, a missing ACL permission).
	ErrRejected = refusal("rejected", "server rejected the operation")

	// ErrWithdrawn is returned when a write of unknown outcome was withdrawn: its connection was ended before the server
	// had executed it.
	ErrWithdrawn = refusal("withdrawn", "write was withdrawn before the server executed it")

	// ErrNotSent is returned when an operation failed before it sent its first write: the connection broke
	// while it was reading, or its context ended while it waited for a lock.
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

// Refused reports whether err means that the operation was certainly not applied. It is false for nil (applied)
// and for every error that leaves the outcome unknown.
func Refused(err error) bool { return Reason(err) != "" }

// Refusal is the error that [Reason] gives a name; nil if it gives it to none.
func Refusal(reason string) error { return refusals[reason] }

// Reason names why an operation was refused, as results spell it ("not_listed", "contended", ...). It is empty
// for nil and for an error of unknown outcome.
func Reason(err error) string {
	is, _ := errors.AsType[refused](err)
	return is.name
}
