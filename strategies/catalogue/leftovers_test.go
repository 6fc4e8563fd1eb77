package catalogue_test

import (
	"slices"
	"testing"

	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// Every key that a strategy and its locks may leave is found by its name, where
// a run's note is lost.
func TestLeftoversAreFound(t *testing.T) {
	conn := testkit.Dial(t, testkit.Embedded(t))
	full := catalogue.Full()
	for _, strategy := range full.Strategies {
		specs := withLocks(full, strategy)
		if len(specs) == 0 {
			t.Errorf("no spec of %s is valid", strategy.Name)
		}

		for _, spec := range specs {
			keys := testkit.Keys(t)
			want := slices.Compact(slices.Sorted(spec.LockKeys(keys, market.RunNote{Accounts: 2, Items: 2})))
			for _, key := range want {
				var err error
				if key == keys.Outcomes() {
					err = conn.HSet(t.Context(), key, "worker", 1).Err()
				} else {
					err = conn.Set(t.Context(), key, 1, 0).Err()
				}
				if err != nil {
					t.Fatal(err)
				}
			}

			found, made, err := marketstore.Leftovers(t.Context(), conn, keys)
			if err != nil || made || !slices.Equal(found, want) {
				t.Errorf("%s: found %q (%v), want %q: %v", spec, found, made, want, err)
			}
		}
	}
}

// A caller that asks for a few keys of a note that names very many items does not wait for the
// rest.
func TestLockKeysStop(t *testing.T) {
	full := catalogue.Full()
	keys := testkit.Keys(t)
	note := market.RunNote{Accounts: marketstore.MaxAccounts, Items: marketstore.MaxItems}

	for _, strategy := range full.Strategies {
		for _, spec := range withLocks(full, strategy) {
			asked := 0
			// A sequence that goes on after the break panics.
			for range spec.LockKeys(keys, note) {
				asked++
				if asked == 3 {
					break
				}
			}
		}
	}
}

// withLocks are the valid specs of a strategy with each lock, also those that
// leave keys of their own.
func withLocks(full strategies.Catalogue, strategy strategies.Strategy) (all []strategies.Spec) {
	texts := []string{strategy.Name}
	for _, kind := range full.Locks {
		with := strategy.Name + ":" + kind.Name
		texts = append(texts, with, with+":fencing=on:idempotent=on")
	}
	for _, text := range texts {
		if spec, err := full.Parse(text); err == nil {
			all = append(all, spec)
		}
	}
	return all
}
