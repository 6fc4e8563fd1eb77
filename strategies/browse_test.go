package strategies_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies"
)

// TestBrowsersSeeTornItems plants an item in no place, in one and in several.
func TestBrowsersSeeTornItems(t *testing.T) {
	listing := market.Listing{Item: 7, Seller: 1, Price: 5}
	for name, c := range map[string]struct {
		listed bool
		owners []market.UserID
		places int
		torn   bool
	}{
		"on the market":               {true, nil, 1, false},
		"with its seller":             {false, []market.UserID{1}, 1, false},
		"with its buyer":              {false, []market.UserID{2}, 1, false},
		"nowhere":                     {false, nil, 0, true},
		"on the market and with user": {true, []market.UserID{2}, 2, true},
		"with two users":              {false, []market.UserID{1, 2}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			backendtest.Each(t, func(t *testing.T, s *backend.Server) {
				browser, conn, keys := openBrowser(t, s, "coarse:rw-safe")
				if c.listed {
					conn.ZAdd(t.Context(), keys.Market(), redis.Z{Score: 5, Member: market.Member(7, 1)})
				}
				for _, owner := range c.owners {
					conn.SAdd(t.Context(), keys.Inventory(owner), 7)
				}
				got, _, err := browser.Browse(t.Context(), listing, 2)
				if want := (market.Sighting{Places: c.places, Torn: c.torn}); err != nil || got != want {
					t.Errorf("got %+v, %v; want %+v", got, err, want)
				}
			})
		})
	}
}

func TestBrowsersNeedALockThatCanBeShared(t *testing.T) {
	browser, _, _ := openBrowser(t, backendtest.Embedded(t), "coarse")
	if _, _, err := browser.Browse(t.Context(), market.Listing{Item: 7, Seller: 1}, 2); !errors.Is(err, strategies.ErrExclusive) {
		t.Errorf("got %v, want %v", err, strategies.ErrExclusive)
	}
}

func openBrowser(t *testing.T, s *backend.Server, spec string) (market.Browser, *backend.Conn, market.Keys) {
	t.Helper()
	parsed, err := strategies.Builtin().Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	conn, keys := backendtest.Dial(t, s), backendtest.Keys(t)
	purchaser, closer, err := parsed.Open(strategies.Env{Redis: conn.Client, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closer.Close() })
	return purchaser.(market.Browser), conn, keys
}
