package market

import "context"

// A Sighting is what a browser saw of one item, in several reads.
type Sighting struct {
	Places int  // inventories and listings that held the item
	Torn   bool // the reads do not fit one state of the market: the item was not in exactly one place
}

// A Browser looks at an item while nobody may change it, sharing that right with other browsers. Like a Purchaser, it
// serves one worker and is not safe for concurrent use.
type Browser interface {
	// Browse reads a listing, every inventory the item may be in (those of accounts 1 to accounts), and the listing
	// again. Errors are those of a Purchaser that writes nothing: ErrContended, ErrLockLost, ErrNotSent, ErrRejected.
	Browse(ctx context.Context, l Listing, accounts int) (Sighting, Receipt, error)
}
