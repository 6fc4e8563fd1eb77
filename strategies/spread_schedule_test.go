package strategies_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/spread"
	"github.com/marketsim/marketsim/market/step"
)

// A fate is what becomes of a client that is about to write.
type fate int

const (
	goesOn       fate = iota
	losesReply        // the write is made
	losesCommand      // the write is not made
	late              // nobody answers, and the write is made when the schedule says so
	twice             // it is made, and once more when the schedule says so
	dies
)

// fates of a client, most of whom go on.
var fates = []fate{goesOn, goesOn, goesOn, goesOn, goesOn, losesReply, losesCommand, late, late, twice, twice, dies}

// fateful is the connection of a client, on which a fate befalls the next script. It is a redis.Hook.
type fateful struct {
	spread.Slots
	next fate
	late *[][]any // commands on their way
}

func (f *fateful) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fateful) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f *fateful) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		befalls := f.next
		if befalls == goesOn || !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		if befalls == twice {
			f.next = goesOn
			*f.late = append(*f.late, slices.Clone(cmd.Args()))
			return next(ctx, cmd)
		}
		switch befalls {
		case losesReply:
			if err := next(ctx, cmd); redis.HasErrorPrefix(err, "NOSCRIPT") {
				return err
			}
		case late:
			*f.late = append(*f.late, slices.Clone(cmd.Args()))
		}
		f.next = goesOn
		cmd.SetErr(io.ErrUnexpectedEOF)
		return io.ErrUnexpectedEOF
	}
}

// A deal is what a client does next: it buys an item if that is listed, and else offers it for its owner.
type deal struct {
	item  market.ItemID
	buyer market.UserID
	price int64
}

// A scheduled client is held before each write until the schedule lets it go on.
type scheduled struct {
	*trader
	wire   *fateful
	deals  []deal
	reads  spread.Trade
	held   chan struct{} // it is
	resume chan fate
	ended  chan struct{}
	errs   []error // unknown outcomes
}

func (c *scheduled) observe(_ context.Context, at step.Name) {
	if at == step.Read || at == step.Written {
		return
	}
	c.held <- struct{}{}
	switch befalls := <-c.resume; befalls {
	case dies:
		runtime.Goexit()
	default:
		c.wire.next = befalls
	}
}

func (c *scheduled) run() {
	defer close(c.ended)
	<-c.resume
	for _, d := range c.deals {
		item, err := c.reads.Read(c.ctx, d.item)
		switch {
		case err != nil:
		case item.Listed:
			err = c.purchase(market.Order{Item: d.item, Seller: item.Owner, Buyer: d.buyer, Price: item.Price})
		default:
			err = c.list(d.item, item.Owner, d.price)
		}
		if err != nil && !market.Refused(err) {
			c.errs = append(c.errs, err)
		}
	}
}

// Three clients trade two items, and help each other. The schedule says who goes on at each write, whose command or reply is
// lost, whose command comes late or twice, and who dies. Nothing is lost, made or sold twice, and only the dead leave an outcome that
// is unknown, or who asked too late after a listing.
func TestSpreadIntentsUnderAnySchedule(t *testing.T) {
	server := testkit.Local(t)
	var wires []*fateful
	open, restart := reused(func() spread.Slots {
		slots := onOneServer(t, server)()
		w := &fateful{Slots: slots}
		rdb, _ := slots.For(t.Context(), "")
		rdb.AddHook(w)
		wires = append(wires, w)
		return w
	})
	rapid.Check(t, func(rt *rapid.T) {
		restart()
		g := newSlotted(t, open)
		direct := testkit.Dial(t, server)
		defer direct.Close()
		var inFlight [][]any
		var clients []*scheduled
		for range 3 {
			c := &scheduled{held: make(chan struct{}), resume: make(chan fate), ended: make(chan struct{})}
			c.wire = g.open().(*fateful)
			c.wire.next, c.wire.late = goesOn, &inFlight
			c.trader = g.trader("spread-intents", c.wire, c.observe)
			c.reads = spread.Trade{Slots: c.wire, Keys: g.keys}
			for range rapid.IntRange(1, 5).Draw(rt, "deals") {
				c.deals = append(c.deals, deal{
					market.ItemID(rapid.IntRange(1, 2).Draw(rt, "item")), market.UserID(rapid.IntRange(1, 3).Draw(rt, "buyer")),
					rapid.SampledFrom([]int64{30, 80}).Draw(rt, "price"),
				})
			}
			go c.run()
			clients = append(clients, c)
		}
		deliver := func(i int) {
			_ = direct.Do(g.ctx, inFlight[i]...).Err()
			inFlight = slices.Delete(inFlight, i, i+1)
		}
		for live := slices.Clone(clients); len(live) > 0; {
			if len(inFlight) > 0 && rapid.IntRange(0, 3).Draw(rt, "deliver") == 0 {
				deliver(rapid.IntRange(0, len(inFlight)-1).Draw(rt, "late"))
			}
			i := rapid.IntRange(0, len(live)-1).Draw(rt, "client")
			befalls := rapid.SampledFrom(fates).Draw(rt, "fate")
			live[i].resume <- befalls
			select {
			case <-live[i].held:
			case <-live[i].ended:
				live = slices.Delete(live, i, i+1)
			}
		}
		for len(inFlight) > 0 {
			deliver(0)
		}
		for _, w := range wires {
			w.next = goesOn
		}
		g.endAll()
		v := g.audit()
		if !v.OK() {
			rt.Fatalf("%+v", v)
		}
		for _, c := range clients {
			for _, err := range c.errs {
				if !errors.Is(err, spread.ErrPassed) {
					rt.Errorf("of unknown outcome: %v", err)
				}
			}
		}
	})
}
