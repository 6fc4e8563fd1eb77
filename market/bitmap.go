package market

import (
	"iter"
	"math/bits"
)

// bitmap is a set of item ids. Ids are dense, so it takes about a bit an item.
type bitmap []uint64

func (b *bitmap) set(id ItemID) {
	b.grow(int(id>>6) + 1)
	(*b)[id>>6] |= 1 << (id & 63)
}

func (b bitmap) has(id ItemID) bool { return int(id>>6) < len(b) && b[id>>6]&(1<<(id&63)) != 0 }

// union adds the ids of other.
func (b *bitmap) union(other bitmap) {
	b.grow(len(other))
	for i, word := range other {
		(*b)[i] |= word
	}
}

func (b *bitmap) grow(words int) {
	for len(*b) < words {
		*b = append(*b, 0)
	}
}

// all yields the ids in ascending order.
func (b bitmap) all() iter.Seq[ItemID] {
	return func(yield func(ItemID) bool) {
		for i, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(ItemID(i<<6 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
