package verify_test

import (
	"slices"
	"testing"

	"github.com/marketsim/marketsim/verify"
)

// Every harm has a place in the order, once, and words of its own.
func TestHarms(t *testing.T) {
	words := map[string]bool{}
	for _, h := range verify.Harms() {
		if words[h.String()] || h.String() == "" {
			t.Errorf("%q is there twice, or has no words", string(h))
		}
		words[h.String()] = true
	}
	if all := verify.Harms(); all[0] != verify.NoHarm || slices.Index(all, verify.SoldTwice) != len(all)-1 {
		t.Errorf("the order is %q", all)
	}
}
