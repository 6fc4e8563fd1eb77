package wording_test

import (
	"testing"

	"github.com/marketsim/marketsim/internal/wording"
)

// A name that is nearly right is found in any case.
func TestNearestInAnyCase(t *testing.T) {
	for _, typed := range []string{"laravle", "LARAVEL", "Laravle"} {
		if got := wording.Nearest(typed, []string{"Redisson", "Laravel"}); got != "Laravel" {
			t.Errorf("nearest to %q is %q", typed, got)
		}
	}
}
