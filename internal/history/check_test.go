package history

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// TestLegalHistories: whatever really happened one after the other is linearizable,
// however it overlapped, in one piece or cut in many.
func TestLegalHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := small(t).history(rapid.IntRange(1, 60).Draw(t, "operations"))
		// Many lost replies on one item may take for ever: then it must be
		// unknown, and never violated.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if v := Check(ctx, h); v.Answer == Violated {
			t.Fatalf("a legal history is %s", words(v))
		}
	})
}

func random(seed uint64) func(int) int { return rand.New(rand.NewPCG(seed, 0)).IntN }

// TestLongLegalHistories: large histories of each shape are read and judged within
// the time and memory promised; by default ones of a twentieth of that length.
func TestLongLegalHistories(t *testing.T) {
	if testing.Short() || testkit.Raced {
		t.Skip("needs a build without the race detector, and no -short: " +
			"it measures how long a check takes")
	}
	const atMost, mostMemory = 60 * time.Second, 2 << 30
	operations := 200_000
	if !testkit.Long() {
		operations /= 20
	}

	for name, g := range map[string]generator{
		"many items":    {draw: random(1), accounts: 10, funds: 1e12, items: 250, spread: 5, lost: 5},
		"one item":      {draw: random(2), accounts: 10, funds: 1e12, items: 1, spread: 3, relist: true},
		"poor accounts": {draw: random(3), accounts: 3, funds: 300, items: 50, spread: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, g.history(operations))
			start := time.Now()
			h := testkit.Must(Read(t.Context(), dir))(t)
			v := Check(t.Context(), h)
			took := time.Since(start)
			if v.Answer != Linearizable {
				t.Errorf("a legal history is %s", words(v))
			}

			var after runtime.MemStats
			runtime.ReadMemStats(&after)
			t.Logf("%s, heap %d MiB", took.Round(time.Millisecond), after.HeapSys>>20)
			if took > atMost || after.HeapSys > mostMemory {
				t.Errorf("it took %s and %d bytes; at most %s and %d are allowed",
					took, after.HeapSys, atMost, mostMemory)
			}
		})
	}
}

func words(v CheckResult) string {
	var b strings.Builder
	_ = v.Write(&b) // into memory
	return b.String()
}

// deadline is a context that ends when it has been looked at n times.
type deadline struct {
	context.Context
	looks int
}

func (d *deadline) Err() error {
	d.looks--
	if d.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestOutOfTime: a check decides nothing without time, and what it decides with
// some is never wrong.
func TestOutOfTime(t *testing.T) {
	t.Parallel()
	h := hand(up, sale, sold(203, 206, 7, Applied)).lies(of(6)).paid(40).holds(1, 180).holds(7, 60)
	undecided := 0
	const most = 100 // it needs about eight
	for looks := range most {
		p := Check(&deadline{t.Context(), looks}, h).Part("items")
		if p.Answer == Undecided && len(p.Why) == 1 && strings.Contains(p.Why[0], "time ran out") {
			undecided++
		} else if p.Answer != Violated {
			t.Errorf("after %d looks at the time: %+v", looks, p)
		}
	}

	if undecided == 0 || undecided == most {
		t.Errorf("time ran out in %d of %d", undecided, most)
	}
}

// TestLongLife: what is wrong late in the long life of an item is found, and told from
// where it begins. A reply lost at the beginning may matter until the end, so that
// nothing can be cut: what is wrong within the first piece is found; beyond it, the
// check does not pretend to know.
func TestLongLife(t *testing.T) {
	lost := Op{
		Worker: 1, Kind: Purchase, Start: 1, End: 2,
		Item: 1, Seller: 1, Buyer: 1, Price: 1000, Outcome: Unknown,
	}
	for _, c := range []struct {
		wrong int // after how many operations a sale is for another price; 0: none is
		lost  []Op
		want  Answer
	}{{2000, nil, Violated}, {0, []Op{lost}, Undecided}, {100, []Op{lost}, Violated}} {
		g := generator{draw: random(2), accounts: 3, funds: 1e12, items: 1, spread: 1, relist: true}
		h := g.history(maxSegment + 1000)
		if i := c.wrong; i > 0 {
			for h.Ops[i].Kind != Purchase || h.Ops[i].Outcome != Applied {
				i++
			}
			h.Ops[i].Price++
		}
		h.Ops = append(c.lost, h.Ops...)

		p := Check(t.Context(), h).Part("items")
		if p.Answer != c.want || len(p.Why)+p.Wrong != 1 || p.Wrong > 0 && (len(p.Stories[0]) > 3000 ||
			!strings.Contains(p.Stories[0], "sold without being listed at that price")) {
			t.Errorf("items: %+v, want %s", p, c.want)
		}
	}
}

// TestSalesUnderWay: one of two sales under way has paid for what was bought,
// so that it cannot have been lacking later.
func TestSalesUnderWay(t *testing.T) {
	order := func(start, end int64, seller, buyer market.UserID, price int64) Op {
		return by(priced(sold(start, end, buyer, Applied), price), seller)
	}

	// Account 6 has 300 coins and spends 480: a sale has paid it, and at least 120 are left.
	for price, want := range map[int64]Answer{100: Violated, 130: Linearizable} {
		h := hand(
			order(100, 400, 6, 7, 300), order(100, 400, 6, 5, 300),
			order(203, 204, 1, 6, 240), order(205, 206, 1, 6, 240),
			refused(order(300, 301, 1, 6, price), "insufficient_funds"),
		)
		h.Funds = 300
		if p := Check(t.Context(), h).Part("payments"); p.Answer != want {
			t.Errorf("refused at %d: %+v, want %s", price, p, want)
		}
	}
}

// TestOverdrawnForAWhile: two buy at once from an account that can pay for one, and a sale
// later makes up for it. Its coins are right at the end, and they were not in between.
func TestOverdrawnForAWhile(t *testing.T) {
	earned := by(priced(sold(300, 301, 7, Applied), 90), 6)
	h := hand(append(
		twoFor(80, Applied, Applied), by(priced(listed(250, 251, Applied), 90), 6), earned,
	)...).
		finds18().lies(of(7)).paid(160)
	h.holds(6, 100-160+90).holds(7, 100-90)
	v := Check(t.Context(), h)
	if p := v.Part("accounts"); p.Answer != Linearizable {
		t.Errorf("at the end: %+v", p)
	}
	if p := v.Part("payments"); p.Answer != Violated ||
		!strings.Contains(p.Stories[0], "account 6: holds 100 coins") ||
		!strings.HasSuffix(p.Stories[0], "spent coins that it did not have") {
		t.Errorf("in between: %+v", p)
	}

	h.Funds = 160 // with which it can pay for both
	if p := Check(t.Context(), h).Part("payments"); p.Answer != Linearizable {
		t.Errorf("with enough coins: %+v", p)
	}
}

// TestSeveralWays: an item was sold for 40 or for 90 coins, and nobody knows for which.
// What the accounts should hold, and whether one ran out, is not decided.
func TestSeveralWays(t *testing.T) {
	v := Check(t.Context(), hand(
		listed(120, 121, Unknown), priced(listed(122, 123, Unknown), 90),
		sold(203, 204, 6, Unknown), priced(sold(205, 206, 6, Unknown), 90),
	).lies(of(6)).paid(90))
	for name, want := range map[string]Answer{
		"items": Linearizable, "accounts": Undecided, "payments": Undecided,
	} {
		if p := v.Part(name); p.Answer != want {
			t.Errorf("%+v, want %s", p, want)
		}
	}
}

// TestCutOnlyWhereNothingIsUnderWay: operations that meet in one instant overlap.
func TestCutOnlyWhereNothingIsUnderWay(t *testing.T) {
	var steps []step
	for i := range int64(3 * minPiece) {
		steps = append(steps, step{call: i, ret: i + 1})
	}
	if n := cut(steps); n != len(steps) {
		t.Errorf("cut after %d of %d steps that meet", n, len(steps))
	}
	steps[2*minPiece].call++
	if n := cut(steps); n != 2*minPiece {
		t.Errorf("cut after %d steps, want the gap after %d", n, 2*minPiece)
	}
}
