package marketstore_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// TestMarketsOfARun: the first notes the others, and each whose it is. A note that names what
// is not under the run's prefix is refused: clean would remove it.
func TestMarketsOfARun(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		conn, run := testkit.Dial(t, s), testkit.Keys(t)
		var parts []market.Keys
		for number := range 3 {
			parts = append(parts, testkit.Must(marketstore.Numbered(run, number+1))(t))
		}
		first := parts[0]
		if _, err := marketstore.OtherMarkets(t.Context(), conn, run, first); !errors.Is(err, redis.Nil) {
			t.Errorf("where nothing is: %v, want %v", err, redis.Nil)
		}

		for i, keys := range parts {
			testkit.Succeeds(t, marketstore.Seed(t.Context(), conn, keys, market.Opening{Accounts: 1}))
			if _, err := marketstore.OtherMarkets(t.Context(), conn, run, keys); !errors.Is(err, redis.Nil) {
				t.Errorf("before market %d is noted: %v, want %v", i+1, err, redis.Nil)
			}
			note := marketstore.SeveralNote{Run: run}
			if i == 0 {
				note.Others = parts[1:]
			}
			testkit.Succeeds(t, marketstore.NoteSeveral(t.Context(), conn, keys, note))
		}
		others, err := marketstore.OtherMarkets(t.Context(), conn, run, first)
		if err != nil || !slices.Equal(others, parts[1:]) {
			t.Errorf("the first notes %v, %v; want %v", others, err, parts[1:])
		}

		// A run of its own, whose prefix looks like a part's.
		alone := testkit.Must(marketstore.Numbered(run, 4))(t)
		testkit.Succeeds(t, marketstore.Seed(t.Context(), conn, alone, market.Opening{Accounts: 1}))
		found, err := marketstore.PartsOf(t.Context(), conn, run)
		slices.SortFunc(found, func(a, b market.Keys) int {
			return slices.Index(parts, a) - slices.Index(parts, b)
		})
		if err != nil || !slices.Equal(found, parts) {
			t.Errorf("found %v, %v; want %v", found, err, parts)
		}

		testkit.Succeeds(t, conn.HSet(t.Context(), first.Run(), "markets", "somebody:").Err())
		if _, err := marketstore.OtherMarkets(t.Context(), conn, run, first); !errors.Is(err, marketstore.ErrForeign) {
			t.Errorf("a note that names another's market: %v, want %v", err, marketstore.ErrForeign)
		}
		testkit.Succeeds(t, conn.Del(t.Context(), first.Run()).Err())
		testkit.Succeeds(t, conn.Set(t.Context(), first.Run(), 1, 0).Err())
		if _, err := marketstore.OtherMarkets(t.Context(), conn, run, first); !errors.Is(err, marketstore.ErrForeign) {
			t.Errorf("a string: %v, want %v", err, marketstore.ErrForeign)
		}
	})
}
