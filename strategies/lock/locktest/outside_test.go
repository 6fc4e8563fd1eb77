package locktest_test

import (
	"testing"

	"github.com/marketsim/marketsim/strategies/lock/locktest"
)

// The lock of the example keeps what can be checked.
func TestOutsideLock(t *testing.T) {
	t.Parallel()
	want := map[string]locktest.State{
		"exclusive": locktest.Kept, "owner-only release": locktest.Kept, "survives a crash": locktest.Unchecked,
	}
	for _, f := range testMine(t) {
		if w, promised := want[f.Promise]; promised && f.State != w || !promised && f.State != locktest.NotMade {
			t.Errorf("%s: %s (%s), want %q", f.Promise, f.State, f.Why, w)
		}
	}
}
