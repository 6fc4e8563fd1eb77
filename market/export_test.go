package market

// NewSharedCirculation is NewCirculation with no more than so many sums.
func NewSharedCirculation(last ItemID, accounts, sums int) *Circulation {
	return newCirculation(last, accounts, sums)
}
