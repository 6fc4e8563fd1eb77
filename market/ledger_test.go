package market

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMarks: a ledger finds again what was marked, whatever the ids, and knows what was marked before.
func TestMarks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l, plain := NewLedger(2), map[ItemID]bool{}
	for range 5000 {
		o := Order{Item: ItemID(random.Int64N(5*BatchSize)) - BatchSize, Seller: 1, Buyer: 2, Price: 1}
		twice := len(l.again)
		l.Purchased(o, nil)
		if before := len(l.again) > twice; before != plain[o.Item] {
			t.Fatalf("item %d: bought before %t, want %t", o.Item, before, plain[o.Item])
		}
		plain[o.Item] = true
	}
	var got []ItemID
	for batch, marked := range l.bought[2] {
		got = slices.AppendSeq(got, marked.items(batch))
	}
	if len(got) != len(plain) {
		t.Errorf("%d items marked, want %d", len(got), len(plain))
	}
	for _, id := range got {
		if !plain[id] {
			t.Errorf("item %d is marked, and was not bought", id)
		}
	}
}
