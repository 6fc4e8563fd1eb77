package suite

import (
	"testing"

	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify/explore"
)

// A harm breaks a promise of a strategy if it comes without a fault, or if it takes no
// lock and clients only pause or die. After a wrong clock it breaks the promise of a lock
// that says that clocks may be wrong.
func TestBrokenPromise(t *testing.T) {
	const pause, die, lose, clock = explore.Pause, explore.Die, explore.Lose, explore.Clock
	for _, c := range []struct {
		spec   string
		market int
		struck []explore.Fault
		broken bool
	}{
		{"unsafe", 0, nil, false},
		{"fine:set-px", 0, nil, true},
		{"fine:set-px", 0, []explore.Fault{pause}, false},
		{"fine:set-px", 1, nil, false}, // an account is not protected by a lock per item
		{"fine-wallet:set-px", 1, nil, true},
		{"fine:exists-set", 0, nil, false},
		{"fine:set-px", 0, []explore.Fault{clock}, true},
		{"fine:getset", 0, []explore.Fault{clock}, false},
		{"watch", 0, []explore.Fault{pause, die}, true},
		{"watch", 0, []explore.Fault{lose}, false},
	} {
		m := Markets()[c.market]
		spec, err := m.Spec(catalogue.Full(), c.spec)
		if err != nil {
			t.Fatal(err)
		}

		if broken := m.BrokenPromise(spec, explore.Found{Struck: c.struck}); (broken != "") != c.broken {
			t.Errorf("%s in %s under %q breaks %q", c.spec, m.Name, c.struck, broken)
		}
	}
}
