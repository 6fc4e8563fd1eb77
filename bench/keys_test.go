package bench

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// under lists the keys with a prefix.
func under(t *testing.T, s *backend.Server, prefix string) []string {
	t.Helper()
	conn := backendtest.Dial(t, s)
	defer conn.Close()
	keys, err := conn.Keys(t.Context(), prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// gone checks that nothing of a market is left.
func gone(t *testing.T, s *backend.Server, keys market.Keys) {
	t.Helper()
	if left := under(t, s, keys.Prefix()); len(left) > 0 {
		t.Errorf("%d keys are left behind: %v", len(left), left[:min(len(left), 10)])
	}
}

// TestRemoves: a run leaves nothing behind, whatever its strategy, and touches nothing beside its prefix.
func TestRemoves(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		conn := backendtest.Dial(t, s)
		for _, name := range []string{"watch", "coarse", "fine", "fine-wallet", "unsafe"} {
			c := config(t, s, spec(t, name))
			neighbour := strings.TrimSuffix(c.Keys.Prefix(), ":")
			if err := conn.Set(t.Context(), neighbour, "mine", 0).Err(); err != nil {
				t.Fatal(err)
			}
			row, err := Run(t.Context(), c)
			if err != nil || !row.Audit.OK {
				t.Fatalf("%s: %v, audit %+v", name, err, row.Audit)
			}
			gone(t, s, c.Keys)
			if value, err := conn.Get(t.Context(), neighbour).Result(); value != "mine" {
				t.Errorf("%s: the neighbour is %q, %v", name, value, err)
			}
		}
		if left := under(t, s, ""); len(left) != 5 {
			t.Errorf("the five neighbours should be all that is left: %v", left)
		}
	})
}

// TestKeep: a kept market is the one that was audited, and a second run refuses to trade in it.
func TestKeep(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine"))
		c.Keep = true
		row, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		conn := backendtest.Dial(t, s)
		before, err := market.ReadSnapshot(t.Context(), conn, c.Keys, 2)
		if err != nil {
			t.Fatal(err)
		}
		if n := int64(len(before.Inventory[2])); n != row.Bought {
			t.Errorf("the buyer owns %d items, and bought %d", n, row.Bought)
		}
		keysBefore := under(t, s, "")
		c.Keep = false
		second, err := Run(t.Context(), c)
		if !errors.Is(err, market.ErrOccupied) || second.Status != Incomplete || second.Audit.Done {
			t.Errorf("a second run: %s, audited %t, %v; want incomplete, ErrOccupied", second.Status, second.Audit.Done, err)
		}
		if err := Rehearse(t.Context(), c); !errors.Is(err, market.ErrOccupied) {
			t.Errorf("rehearsing: %v, want ErrOccupied", err)
		}
		after, err := market.ReadSnapshot(t.Context(), conn, c.Keys, 2)
		if err != nil || !reflect.DeepEqual(before, after) || !slices.Equal(keysBefore, under(t, s, "")) {
			t.Errorf("the kept market was touched: %v", err)
		}
	})
}

// TestNothingStarted: a run that fails before it seeds has nothing to remove, and says so by not saying otherwise.
func TestNothingStarted(t *testing.T) {
	away := errors.New("server is away")
	c := Config{
		Subject: spec(t, "watch"), Mix: mix1x1, Purchases: 1, Keys: backendtest.Keys(t),
		Dial: func(context.Context) (*backend.Conn, error) { return nil, away },
	}
	row, err := Run(t.Context(), c)
	if row.Status != Incomplete || row.Strategy != "watch" || !errors.Is(err, away) || strings.Contains(err.Error(), "left behind") {
		t.Errorf("row %+v, error %v", row, err)
	}
}

// TestStoppedEarly: a user who stops a run while it is being set up is not told that it failed.
func TestStoppedEarly(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := config(t, s, spec(t, "watch"))
		for stopAt := range 3 { // seeding, connecting the seller, connecting the buyer
			dialled := 0
			c.Dial = func(dialCtx context.Context) (*backend.Conn, error) {
				if dialled == stopAt {
					cancel()
				}
				dialled++
				return s.Dial(dialCtx)
			}
			if row, err := Run(ctx, c); err != nil || row.Status != Interrupted {
				t.Errorf("stopped at connection %d: %s, %v; want interrupted", stopAt, row.Status, err)
			}
			gone(t, s, c.Keys)
			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
		}
	})
}
