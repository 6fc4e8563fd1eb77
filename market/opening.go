package market

// BatchSize is how many items are minted at once.
const BatchSize = 1000

// Opening is what a market starts with: accounts 1 to Accounts, holding Funds coins each.
type Opening struct {
	Accounts int
	Funds    int64
	// Who trades here, as a canonical spec: it says which locks there may be.
	Strategy string
}

// A RunNote is what a run noted about itself under its prefix: enough to remove it
// by enumeration.
type RunNote struct {
	Accounts int
	Items    ItemID // the highest id that may have been minted
	Strategy string // canonical spec
}
