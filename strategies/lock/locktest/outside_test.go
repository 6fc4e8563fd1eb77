package locktest_test

import (
	"testing"

	"github.com/marketsim/marketsim/strategies/lock/locktest"
)

// The lock of the example keeps what can be checked.
func TestOutsideLock(t *testing.T) {
	want := map[string]locktest.Verdict{
		"exclusive": locktest.Kept, "owner-only release": locktest.Kept, "survives a crash": locktest.Unchecked,
	}
	for _, f := range testMine(t) {
		if w, promised := want[f.Promise]; promised && f.Verdict != w || !promised && f.Verdict != locktest.NotMade {
			t.Errorf("%s: %s (%s), want %q", f.Promise, f.Verdict, f.Why, w)
		}
	}
}
