package strategies_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// ownScript is the spec of a script.
func ownScript(t testing.TB, text string) strategies.Spec {
	t.Helper()
	c := strategies.Catalogue{Strategies: []strategies.Strategy{strategies.OwnScript("script:mine", text)}}
	return testkit.Must(c.Parse("script:mine"))(t)
}

// TestScriptToCopyConforms: what a user starts from is a strategy like any other.
func TestScriptToCopyConforms(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		t.Parallel()
		suite.TestPurchaser(t, s, factory(ownScript(t, strategies.ScriptToCopy())))
	})
}

// TestAnswersOfScripts: each answer means what the contract says, and no other is taken
// for a purchase.
func TestAnswersOfScripts(t *testing.T) {
	inMarket(t, func(g *fixture) {
		for script, want := range map[string]error{
			"return 'not_listed'":                        market.ErrNotListed,
			"return 'price_changed'":                     market.ErrPriceChanged,
			"return 'insufficient_funds'":                market.ErrInsufficientFunds,
			"return {err = 'OOM (nothing was written)'}": market.ErrRejected,
		} {
			if err := g.buysBy(script); !errors.Is(err, want) {
				g.Errorf("%s: %v, want %v", script, err, want)
			}
		}

		for script, says := range map[string]string{
			"return 0":                        "answers 0, not 1",
			"return 'done'":                   `answers "done", not 1`,
			"return false":                    "answers <nil>, not 1",
			"return {1}":                      "answers [1], not 1",
			"return redis.status_reply('OK')": `answers "OK", not 1`,
			"return {err = 'BROKEN'}":         "outcome of the writes is unknown: ",
		} {
			err := g.buysBy(script)
			if err == nil || market.Refused(err) || !strings.Contains(err.Error(), says) {
				g.Errorf("%s: %v, want an unknown outcome that says %q", script, err, says)
			}
		}
	})
}

// buysBy is how the purchase of an item ends that a script makes.
func (g *fixture) buysBy(script string) error {
	g.Helper()
	servers := connect.MarketServers{Market: g.server.Dialer("")}
	c, err := connect.Open(g.ctx, ownScript(g, script), servers, connect.Counters{}, strategies.Env{Keys: g.keys})
	g.must(err)
	defer c.Close()
	order := market.Order{Item: g.first, Seller: seller, Buyer: buyer, Price: price}
	_, err = c.Purchaser.Purchase(g.ctx, order)
	return err
}
