package strategies_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// TestBrowsersSeeTornItems plants an item in no place, in one and in several.
func TestBrowsersSeeTornItems(t *testing.T) {
	listing := market.Listing{Item: 7, Seller: 1, Price: 5}
	type planted struct {
		listed bool
		owners []market.UserID
		places int
		torn   bool
	}
	eachCase(t, map[string]planted{
		"on the market":               {true, nil, 1, false},
		"with its seller":             {false, []market.UserID{1}, 1, false},
		"with its buyer":              {false, []market.UserID{2}, 1, false},
		"nowhere":                     {false, nil, 0, true},
		"on the market and with user": {true, []market.UserID{2}, 2, true},
		"with two users":              {false, []market.UserID{1, 2}, 2, true},
	}, func(g *fixture, _ string, c planted) {
		browser := g.worker("coarse:rw-safe", nil).purchaser.(market.Browser)
		g.must(g.conn.Del(g.ctx, g.keys.Inventory(seller)).Err())
		if c.listed {
			g.conn.ZAdd(g.ctx, g.keys.Market(), redis.Z{Score: 5, Member: market.Member(7, 1)})
		}
		for _, owner := range c.owners {
			g.conn.SAdd(g.ctx, g.keys.Inventory(owner), 7)
		}
		got, _, err := browser.Browse(g.ctx, listing, 2)
		if want := (market.Sighting{Places: c.places, Torn: c.torn}); err != nil || got != want {
			g.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	})
}

// browsing is a call of Browse that is held after its first read.
type browsing struct {
	*step.Gate
	done     chan struct{}
	sighting market.Sighting
	err      error
}

func (g *fixture) browses(spec string, o market.Order) *browsing {
	g.Helper()
	b := &browsing{Gate: step.Hold(step.Read), done: make(chan struct{})}
	browser := g.worker(spec, b.Observe).purchaser.(market.Browser)
	go func() {
		defer close(b.done)
		b.sighting, _, b.err = browser.Browse(g.ctx, market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price}, 3)
	}()
	g.Cleanup(func() {
		b.Open()
		<-b.done
	})
	select {
	case <-b.Reached():
	case <-b.done:
		g.Fatalf("the browser did not come to its second read: %v", b.err)
	}
	return b
}

// saw lets a browser go on and returns what it saw.
func (g *fixture) saw(b *browsing) market.Sighting {
	g.Helper()
	b.Open()
	<-b.done
	g.must(b.err)
	return b.sighting
}

// TestFlawedLocksTearWhatABrowserReads: another browser comes and goes beside the one that reads, then a buyer takes
// the item. Each flawed lock lets the buyer in, in the way its doc comment says; rw-safe makes it wait.
func TestFlawedLocksTearWhatABrowserReads(t *testing.T) {
	// The reader of rw-hash whose time was overwritten.
	overwritten := func(g *fixture, spec string, o market.Order) *browsing {
		b := g.browses(spec, o)
		g.saw(g.browses(spec, o))
		return b
	}
	// The reader of rw-keys that one who outlived its expiry counts down.
	countedDown := func(g *fixture, spec string, o market.Order) *browsing {
		slow := g.browses(spec, o)
		g.must(g.conn.Del(g.ctx, g.keys.Lock("market")+":readers").Err()) // as its expiry does
		b := g.browses(spec, o)
		g.saw(slow)
		return b
	}
	for _, c := range []struct {
		spec  string
		reads func(g *fixture, spec string, o market.Order) *browsing
		torn  bool
	}{
		{"coarse:rw-hash", overwritten, true},
		{"coarse:rw-keys", countedDown, true},
		{"coarse:rw-keys", overwritten, false}, // it counts readers
		{"coarse:rw-safe", overwritten, false},
		{"coarse:rw-safe", countedDown, false},
	} {
		t.Run(fmt.Sprintf("%s/torn=%v", c.spec, c.torn), func(t *testing.T) {
			each(t, func(g *fixture) {
				o := g.offer(0)
				reader := c.reads(g, c.spec, o)
				if c.torn {
					_, err := g.worker(c.spec, nil).purchase(o)
					g.must(err)
					if got, want := g.saw(reader), (market.Sighting{Places: 2, Torn: true}); got != want {
						g.Errorf("%s: the browser saw %+v, want %+v", c.spec, got, want)
					}
				} else {
					waits := step.Hold(step.Waiting)
					bought := g.held(c.spec, waits, o) // it waits
					if got, want := g.saw(reader), (market.Sighting{Places: 1}); got != want {
						g.Errorf("%s: the browser saw %+v, want %+v", c.spec, got, want)
					}
					waits.Open()
					g.must((<-bought).err)
				}
				g.sound(0, 0)
			})
		})
	}
}

func TestBrowsersNeedALockThatCanBeShared(t *testing.T) {
	g := newFixture(t, testkit.Embedded(t))
	browser := g.worker("coarse", nil).purchaser.(market.Browser)
	_, _, err := browser.Browse(g.ctx, market.Listing{Item: 7, Seller: 1}, 2)
	if !errors.Is(err, strategies.ErrExclusive) {
		t.Errorf("got %v, want %v", err, strategies.ErrExclusive)
	}
}
