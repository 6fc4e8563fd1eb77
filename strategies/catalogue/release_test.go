package catalogue_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// The table of faults says "it releases in one command" of a lock whose release
// reports no step.Looked. That is true of every lock in Redis, with the parameters
// that the table plays it with.
func TestReleasesWithoutAStepAreOneCommand(t *testing.T) {
	direct := testkit.Local(t)
	proxy := testkit.StartProxy(t, direct)
	full := catalogue.Full()
	for _, kind := range full.Locks {
		if kind.Needs != lock.NeedsNothing {
			continue
		}
		for _, variant := range append([]string{""}, kind.Variants...) {
			spec := testkit.Must(full.Parse("fine:" + kind.Name + variant))(t)
			releasing := false
			looked := false
			p, closer, err := spec.Open(strategies.Env{
				ClientEnv: market.ClientEnv{Steps: func(_ context.Context, at step.Name) {
					switch at {
					case step.BeforeRelease:
						releasing = true
						proxy.Record()
					case step.Looked:
						looked = looked || releasing
					}
				}},
				Redis: testkit.Dial(t, proxy.Server()).Client,
				Keys:  testkit.Keys(t),
				// For renewals.
				NewClient: func(context.Context) (*redis.Client, error) {
					return testkit.Dial(t, direct).Client, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}

			for range 2 { // at the first time the server may have to be sent the script
				releasing = false
				_, err = p.List(t.Context(), market.Listing{Item: 1, Seller: 1, Price: 1})
			}
			if sent := proxy.Commands(); releasing && !looked && len(sent) != 1 {
				t.Errorf("%s: %v; it reports no step while it releases, and sends %q", spec, err, sent)
			}

			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
