package strategies_test

import (
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/markettest"
	"github.com/marketsim/marketsim/strategies"
)

func TestMain(m *testing.M) { backendtest.VerifyNoLeaks(m) }

// protectsAccounts says which strategies protect an account that several workers spend from.
var protectsAccounts = map[string]bool{"watch": true, "coarse": true, "fine": false, "fine-wallet": true, "unsafe": false}

func TestStrategiesConform(t *testing.T) {
	for _, strategy := range strategies.All() {
		t.Run(strategy.Name, func(t *testing.T) {
			t.Parallel()
			shared, known := protectsAccounts[strategy.Name]
			if !known {
				t.Fatal("say in protectsAccounts what it promises")
			}
			subject := subject(parse(t, strategy.Name))
			subject.Unprotected, subject.SharedAccounts = strategy.Name == "unsafe", shared
			backendtest.Each(t, func(t *testing.T, s *backend.Server) { markettest.Run(t, s, subject) })
		})
	}
}

// subject has the suite open purchasers of a spec.
func subject(spec strategies.Spec) markettest.Subject {
	return markettest.Subject{
		Open: func(t testing.TB, w markettest.Worker) market.Purchaser {
			return open(t, spec, strategies.Env{Redis: w.Conn.Client, Dial: w.Dial, Keys: w.Keys, Steps: w.Steps})
		},
		LockKeys: spec.LockKeys,
	}
}

func parse(t testing.TB, text string) strategies.Spec {
	t.Helper()
	spec, err := strategies.Builtin().Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// open makes a Purchaser that is closed with the test.
func open(t testing.TB, spec strategies.Spec, env strategies.Env) market.Purchaser {
	t.Helper()
	p, closer, err := spec.Open(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closer.Close(); err != nil {
			t.Errorf("closing %s: %v", spec, err)
		}
	})
	return p
}
