package marketstore_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

func TestMain(m *testing.M) { testkit.VerifyNoLeaks(m) }

// world is a market of three accounts with 100 coins each. User 1 owns a batch of items.
type world struct {
	testing.TB
	ctx  context.Context
	conn *redisconn.Conn
	keys market.Keys
}

func newWorld(t testing.TB, s *backend.Server) *world {
	t.Helper()
	w := &world{TB: t, ctx: t.Context(), conn: testkit.Dial(t, s), keys: testkit.Keys(t)}
	w.must(marketstore.Seed(w.ctx, w.conn, w.keys, market.Opening{Accounts: 3, Funds: 100}))
	_, err := marketstore.Mint(w.ctx, w.conn, w.keys, 1)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) do(command ...any) {
	w.Helper()
	w.must(w.conn.Do(w.ctx, command...).Err())
}

// present lists the keys under a prefix.
func (w *world) present(prefix string) []string {
	w.Helper()
	found, err := w.conn.Keys(w.ctx, prefix+"*").Result()
	w.must(err)
	slices.Sort(found)
	return found
}

func TestSeedRefusesAClaimedPrefix(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		w := newWorld(t, s)
		before, err := market.ReadSnapshot(w.ctx, w.conn, w.keys, 3)
		w.must(err)

		err = marketstore.Seed(w.ctx, w.conn, w.keys, market.Opening{Accounts: 3, Funds: 7})
		if !errors.Is(err, marketstore.ErrOccupied) {
			t.Errorf("Seed: %v, want %v", err, marketstore.ErrOccupied)
		}

		after, err := market.ReadSnapshot(w.ctx, w.conn, w.keys, 3)
		w.must(err)
		if before.Funds[1] != after.Funds[1] {
			t.Errorf("funds changed from %d to %d", before.Funds[1], after.Funds[1])
		}
	})
}

func TestSeedMakesAndNotesAccounts(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		conn, keys := testkit.Dial(t, s), testkit.Keys(t)
		if _, err := marketstore.ReadNote(t.Context(), conn, keys); !errors.Is(err, redis.Nil) {
			t.Errorf("ReadNote of nothing: %v, want %v", err, redis.Nil)
		}

		const accounts = 2500 // several pipelines
		opening := market.Opening{Accounts: accounts, Funds: 7, Strategy: "fine"}
		testkit.Succeeds(t, marketstore.Seed(t.Context(), conn, keys, opening))

		// The first account, the last one, and those on both sides of the end of a pipeline.
		for _, id := range []market.UserID{1, 1000, 1001, accounts} {
			if funds, err := conn.HGet(t.Context(), keys.User(id), "funds").Int(); err != nil || funds != 7 {
				t.Errorf("user %d holds %d, %v", id, funds, err)
			}
		}

		first, err := marketstore.Mint(t.Context(), conn, keys, 9)
		if err != nil || first != 1 {
			t.Errorf("Mint = %d, %v; want 1", first, err)
		}

		made, err := marketstore.ReadNote(t.Context(), conn, keys)
		want := market.RunNote{Accounts: accounts, Items: market.BatchSize, Strategy: "fine"}
		if err != nil || !reflect.DeepEqual(made, want) {
			t.Errorf("ReadNote = %+v, %v; want %+v", made, err, want)
		}
	})
}

func TestReadNoteOfAnInterruptedAndOfAForeignNote(t *testing.T) {
	w := newWorld(t, testkit.Embedded(t))
	w.do("hdel", w.keys.Run(), "items", "strategy")
	made, err := marketstore.ReadNote(w.ctx, w.conn, w.keys)
	if err != nil || !reflect.DeepEqual(made, market.RunNote{Accounts: 3}) {
		t.Errorf("interrupted: %+v, %v", made, err)
	}
	w.do("hset", w.keys.Run(), "accounts", "few")
	if made, err := marketstore.ReadNote(w.ctx, w.conn, w.keys); err == nil {
		t.Errorf("foreign: %+v and no error", made)
	}
}

func TestOccupiedFindsForeignKeys(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		conn, keys := testkit.Dial(t, s), testkit.Keys(t)
		conn.Set(t.Context(), "other:"+keys.Prefix(), 1, 0)
		if err := marketstore.Occupied(t.Context(), conn, keys); err != nil {
			t.Errorf("Occupied of a free prefix: %v", err)
		}
		conn.Set(t.Context(), keys.Prefix()+"foreign", 1, 0)
		err := marketstore.Occupied(t.Context(), conn, keys)
		if !errors.Is(err, marketstore.ErrOccupied) {
			t.Errorf("Occupied of a taken prefix: %v, want %v", err, marketstore.ErrOccupied)
		}
	})
}

func TestRemoveLeavesNothingAndTouchesNothingElse(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		w := newWorld(t, s)
		w.must(marketstore.Offer(w.ctx, w.conn, w.keys, market.Listing{Item: 1, Seller: 1, Price: 30}))
		w.do("set", w.keys.Lock("market"), "held")
		prefix := w.keys.Prefix()
		neighbours := []string{
			prefix[:len(prefix)-1], prefix[:len(prefix)-1] + "2:run", "users:1", prefix + "foreign",
		}
		for _, key := range neighbours {
			w.do("set", key, 1)
		}
		owned := len(w.present(prefix)) - 1 // less the foreign key

		made, err := marketstore.ReadNote(w.ctx, w.conn, w.keys)
		w.must(err)
		locks := []string{w.keys.Lock("market"), w.keys.Lock("none")}
		removed, err := marketstore.Remove(w.ctx, w.conn, w.keys, made, slices.Values(locks))
		if err != nil || removed != int64(owned) {
			t.Errorf("Remove = %d, %v; want %d", removed, err, owned)
		}
		if rest := w.present(prefix); !slices.Equal(rest, neighbours[3:]) {
			t.Errorf("under the prefix there is still %q, want only %q", rest, neighbours[3:])
		}
		if n, err := w.conn.Exists(w.ctx, neighbours...).Result(); err != nil ||
			n != int64(len(neighbours)) {
			t.Errorf("%d of %d neighbours are left, %v", n, len(neighbours), err)
		}
		if removed, err := marketstore.Remove(
			w.ctx, w.conn, w.keys, made, slices.Values(locks),
		); err != nil || removed != 0 {
			t.Errorf("second Remove = %d, %v; want 0", removed, err)
		}
	})
}
