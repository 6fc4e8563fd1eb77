package history

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/market"
)

// small draws a small market in which coins run out, items are sold on, and replies are lost.
func small(t *rapid.T) generator {
	return generator{
		draw:     func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") },
		accounts: rapid.IntRange(1, 3).Draw(t, "accounts"), funds: rapid.Int64Range(0, 200).Draw(t, "funds"),
		items: rapid.IntRange(1, 3).Draw(t, "items"), spread: rapid.IntRange(0, 4).Draw(t, "spread"),
		lost: rapid.SampledFrom([]int{0, 0, 50}).Draw(t, "lost"), relist: rapid.Bool().Draw(t, "relist"),
	}
}

// TestLegalHistories: whatever really happened one after the other is linearizable, however it overlapped, in one piece
// or cut in many.
func TestLegalHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := small(t).history(rapid.IntRange(1, 60).Draw(t, "operations"))
		// Many lost replies on one item may take for ever: then it must be unknown, and never violated.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if v := Check(ctx, h); v.Answer == Violated {
			var b strings.Builder
			v.Write(&b)
			t.Fatalf("a legal history is %s", b.String())
		}
	})
}

func random(seed uint64) func(int) int { return rand.New(rand.NewPCG(seed, 0)).IntN }

func TestLongLegalHistories(t *testing.T) {
	for name, g := range map[string]generator{
		"many items":       {draw: random(1), accounts: 10, funds: 1e12, items: 200, spread: 5},
		"one item":         {draw: random(2), accounts: 10, funds: 1e12, items: 1, spread: 2, relist: true},
		"poor accounts":    {draw: random(3), accounts: 3, funds: 300, items: 50, spread: 2},
		"some lost":        {draw: random(4), accounts: 10, funds: 1e12, items: 200, spread: 5, lost: 5},
		"poor, some lost":  {draw: random(5), accounts: 5, funds: 500, items: 100, spread: 3, lost: 1},
		"all at one place": {draw: random(6), accounts: 1, funds: 500, items: 20, spread: 3},
	} {
		t.Run(name, func(t *testing.T) {
			h := g.history(3000)
			v := Check(t.Context(), h)
			if v.Answer != Linearizable {
				var b strings.Builder
				v.Write(&b)
				t.Errorf("a legal history is %s", b.String())
			}
		})
	}
}

// TestOutOfTime: a check without time decides nothing, and says so.
func TestOutOfTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := generator{draw: random(1), accounts: 3, funds: 300, items: 10, spread: 3}.history(300)
	v := Check(ctx, h)
	if v.Answer != Undecided || v.Part("items").Answer != Undecided || len(v.Part("items").Why) == 0 {
		t.Errorf("the verdict is %+v", v)
	}
}

// deadline is a context that ends when it has been looked at so many times.
type deadline struct {
	context.Context
	looks int
}

func (d *deadline) Err() error {
	if d.looks--; d.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestOutOfTimeWhileSettling: of two ways in which lost replies may have ended, the accounts fit only the one that the
// item's life rules out. Without time to rule it out, that it fits says nothing.
func TestOutOfTimeWhileSettling(t *testing.T) {
	h := hand(
		priced(listed(5, 6, Unknown), 50), refused(listed(10, 12, ""), "not_owned"), listed(20, 21, Unknown),
		priced(sold(30, 31, 2, Unknown), 50), sold(30, 31, 2, Unknown),
	).lies(of(2)).holds(1, 140).holds(2, 60)
	if v := Check(t.Context(), h); v.Part("accounts").Answer != Violated {
		t.Fatalf("with all time: %+v", v)
	}
	settling := 0
	for looks := range 1000 {
		v := Check(&deadline{t.Context(), looks}, h)
		if v.Answer == Linearizable {
			t.Errorf("linearizable after %d looks at the time: %+v", looks, v)
		}
		if v.Part("items").Answer == Linearizable && v.Part("accounts").Answer == Undecided {
			settling++
			if p := v.Part("order of accounts"); p.Answer != Undecided || !strings.Contains(p.Why[0], "time ran out") {
				t.Errorf("the order of accounts after %d looks: %+v", looks, p)
			}
		}
	}
	if settling == 0 {
		t.Error("time never ran out while settling")
	}
}

// TestLongViolation: what is wrong late in a long life is found, and told from where it begins.
func TestLongViolation(t *testing.T) {
	h := generator{draw: random(2), accounts: 10, funds: 1e12, items: 1, spread: 2, relist: true}.history(3000)
	wrong := 2000
	for h.Ops[wrong].Kind != Purchase || h.Ops[wrong].Outcome != Applied {
		wrong++
	}
	h.Ops[wrong].Price++
	p := Check(t.Context(), h).Part("items")
	if p.Answer != Violated || p.Wrong != 1 || len(p.Stories[0].Text) > 3000 ||
		!strings.Contains(p.Stories[0].Text, "at a price at which") {
		t.Errorf("items: %+v", p)
	}
}

// TestTooLargeForOnePiece: a reply lost at the beginning may matter until the end, so that nothing can be cut. What is
// wrong within the first piece is found; beyond it, the check does not pretend to know.
func TestTooLargeForOnePiece(t *testing.T) {
	g := generator{draw: random(2), accounts: 3, funds: 1e12, items: 1, spread: 1, relist: true}
	h := g.history(maxSegment + 1000)
	h.Ops = append([]Op{{
		Worker: 1, Kind: Purchase, Start: 1, End: 2, Item: 1, Seller: 1, Buyer: 1, Price: 1000, Outcome: Unknown,
	}}, h.Ops...)
	if p := Check(t.Context(), h).Part("items"); p.Answer != Undecided || len(p.Why) != 1 {
		t.Errorf("items: %+v, want %s", p, Undecided)
	}
	for i := range h.Ops {
		if i > 100 && h.Ops[i].Outcome == Applied && h.Ops[i].Kind == Purchase {
			h.Ops[i].Price++
			break
		}
	}
	if p := Check(t.Context(), h).Part("items"); p.Answer != Violated {
		t.Errorf("items: %+v, want %s", p, Violated)
	}
}

// TestDrawEndsInTime: an order of many operations at a time is looked for no longer than it may take.
func TestDrawEndsInTime(t *testing.T) {
	hard := &finding{from: balance(1)}
	for n := range 40 {
		hard.steps = append(hard.steps, step{n, 0, 10, booking{1, 0, &Op{Price: 1}, false}, nil})
	}
	hard.steps = append(hard.steps, step{40, 20, 30, lack{&Op{Price: 1}}, nil})
	var page strings.Builder
	drawn, err := Story{finding: hard}.draw(&page, "", time.Millisecond)
	if err != nil || !drawn || !strings.Contains(page.String(), "<html") {
		t.Errorf("drawn %t, %v", drawn, err)
	}
}

// TestDraw: an order that does not exist can be drawn; an account that is wrong has nothing to draw.
func TestDraw(t *testing.T) {
	for _, c := range hands {
		v := Check(t.Context(), c.h)
		if c.part == "" {
			continue
		}
		var page strings.Builder
		drawn, err := v.Part(c.part).Stories[0].Draw(&page, "<b>"+c.name)
		if err != nil {
			t.Fatal(err)
		}
		if text := page.String(); strings.Contains(text, "<b>") || drawn && !strings.Contains(text, "&lt;b&gt;"+c.name) {
			t.Errorf("%s: the name of the history is not escaped, or not there", c.name)
		}
		wants := c.part != "accounts" && !strings.HasPrefix(c.says, "the inventory of") && c.name != "junk on the market"
		if drawn != wants || drawn != strings.Contains(page.String(), "<html") {
			t.Errorf("%s: drawn %t, %d bytes", c.name, drawn, page.Len())
		}
	}
}

// played is a history whose operations happened in the order in which they are given, and whose times and outcomes are
// what the clients saw of it. Only those that are applied, or unknown, happened.
func played(ops ...Op) *History {
	r := market.NewReference(market.Opening{Accounts: 7, Funds: 100})
	r.Mint(1)
	for _, o := range ops {
		if o.Outcome == Refused {
			continue
		}
		if err := o.do(r); err != nil {
			panic(err)
		}
	}
	h := hand(ops...)
	h.Final = nil
	h.end(r.Snapshot())
	return h
}

// trade is a purchase from 1 by 6, or if that is a sale, from 6 by 7, of an item listed at once.
func trade(item market.ItemID, start, end, price int64, sale bool) []Op {
	l := Op{Worker: 1, Kind: List, Start: 3, End: 4, Item: item, Seller: 1, Price: price, Outcome: Applied}
	p := Op{Worker: 2, Kind: Purchase, Start: start * 1e6, End: end * 1e6, Item: item, Seller: 1, Buyer: 6, Price: price,
		Outcome: Applied}
	if sale {
		first := l
		first.Price = 1
		back := p
		back.Start, back.End, back.Price = 5, 6, 1
		l.Seller, l.Start, l.End = 6, 7, 8
		p.Seller, p.Buyer = 6, 7
		return []Op{first, back, l, p}
	}
	return []Op{l, p}
}

// TestAccountsThatRunOut: orders under way while an account runs out of coins may come before or after later ones.
func TestAccountsThatRunOut(t *testing.T) {
	join := func(all ...[]Op) (ops []Op) {
		for _, some := range all {
			ops = append(ops, some...)
		}
		return ops
	}
	unknown := func(ops []Op) []Op { ops[len(ops)-1].Outcome = Unknown; return ops }
	dear := refused(priced(sold(203, 204, 6, ""), 100), "insufficient_funds")
	for _, c := range []struct {
		name string
		h    *History
		want Answer
	}{
		{"a slow order comes last, after a sale", played(join(trade(2, 150, 160, 60, false), trade(3, 170, 180, 39, false),
			trade(5, 200, 210, 50, true), trade(4, 100, 300, 10, false))...), Linearizable},
		{"the same without the sale", func() *History {
			h := played(join(trade(2, 150, 160, 60, false), trade(3, 170, 180, 39, false))...)
			slow := trade(4, 100, 300, 10, false)
			h.Ops = append(h.Ops, slow...)
			return h
		}(), Violated},
		{"a lost reply, applied after a sale", played(join(trade(3, 300, 301, 90, false), trade(5, 400, 401, 80, true),
			unknown(trade(2, 200, 201, 80, false)))...), Linearizable},
		{"refused with exactly enough", played(priced(listed(120, 121, Applied), 100), dear), Violated},
		{"refused with one coin less", played(join(trade(2, 100, 110, 1, false),
			[]Op{priced(listed(120, 121, Applied), 100), dear})...),
			Linearizable},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p := Check(t.Context(), c.h).Part("order of accounts"); p.Answer != c.want {
				t.Errorf("%s, want %s: %+v", p.Answer, c.want, p)
			}
		})
	}
}

// TestCutOnlyWhereNothingIsUnderWay: operations that meet in one instant overlap.
func TestCutOnlyWhereNothingIsUnderWay(t *testing.T) {
	var meeting []step
	for i := range int64(3 * minPiece) {
		meeting = append(meeting, step{call: i, ret: i + 1})
	}
	if n := cut(meeting); n != len(meeting) {
		t.Errorf("cut after %d of %d steps that meet", n, len(meeting))
	}
	for i := 2 * minPiece; i < len(meeting); i++ {
		meeting[i].call++
		meeting[i].ret++
	}
	if n := cut(meeting); n != 2*minPiece {
		t.Errorf("cut after %d steps, want the gap after %d", n, 2*minPiece)
	}
}
