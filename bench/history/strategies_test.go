package history

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	points "github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// recordedMarket is a market of three accounts with 100 coins each, whose traders are recorded.
type recordedMarket struct {
	testing.TB
	server *backend.Server
	conn   *backend.Conn
	keys   market.Keys
	dir    string
	writer *Writer
	first  market.ItemID
}

func newRecordedMarket(t testing.TB, s *backend.Server) *recordedMarket {
	t.Helper()
	st := &recordedMarket{TB: t, server: s, conn: testkit.Dial(t, s), keys: testkit.Keys(t), dir: t.TempDir()}
	st.must(market.Seed(t.Context(), st.conn, st.keys, market.Opening{Accounts: 3, Funds: 100}))
	var err error
	st.writer, err = Create(st.dir, Header{Run: st.keys.Prefix(), Subject: "test", Mix: "1x2", Accounts: 3, Funds: 100})
	st.must(err)
	start := time.Now()
	st.first, err = market.Mint(t.Context(), st.conn, st.keys, 1)
	st.must(err)
	r, err := st.writer.Worker("seller")
	st.must(err)
	r.Minted(start, time.Now(), st.first, 1, nil)
	return st
}

func (st *recordedMarket) must(err error) {
	st.Helper()
	if err != nil {
		st.Fatal(err)
	}
}

// trader is one worker, who reaches the market through a server, which may be a proxy.
type trader struct {
	*recordedMarket
	purchaser market.Purchaser
	recorder  *Recorder
}

func (st *recordedMarket) trader(spec string, through *backend.Server, steps points.Observer) *trader {
	st.Helper()
	parsed, err := strategies.Builtin().Parse(spec)
	st.must(err)
	r, err := st.writer.Worker("buyer")
	st.must(err)
	conn := testkit.Dial(st, through)
	p, closer, err := parsed.Open(strategies.Env{Redis: conn.Client, Keys: st.keys, Steps: steps, Holds: r.Held})
	st.must(err)
	st.Cleanup(func() { closer.Close() })
	return &trader{st, p, r}
}

// offer lists the n-th item at 80 coins, and returns the order of a buyer.
func (st *recordedMarket) offer(n int, buyer market.UserID) market.Order {
	st.Helper()
	t := st.trader("watch", st.server, nil)
	l := market.Listing{Item: st.first + market.ItemID(n), Seller: 1, Price: 80}
	start := time.Now()
	_, err := t.purchaser.List(st.Context(), l)
	t.recorder.Listed(start, time.Now(), l, err)
	st.must(err)
	return market.Order{Item: l.Item, Seller: 1, Buyer: buyer, Price: 80}
}

func (t *trader) buy(o market.Order) error {
	start := time.Now()
	_, err := t.purchaser.Purchase(t.Context(), o)
	t.recorder.Purchased(start, time.Now(), o, err)
	return err
}

// meet makes two orders, each of which has decided before either writes.
func (st *recordedMarket) meet(spec string, orders ...market.Order) {
	st.Helper()
	var gates []*points.Gate
	var done []chan error
	for _, o := range orders {
		gate, result := points.Hold(points.BeforeWrite), make(chan error, 1)
		st.Cleanup(gate.Open)
		buyer := st.trader(spec, st.server, gate.Observe)
		go func() { result <- buyer.buy(o) }()
		select {
		case <-gate.Reached():
		case err := <-result:
			st.Fatalf("%s did not come to the gate: %v", spec, err)
		}
		gates, done = append(gates, gate), append(done, result)
	}
	for i, gate := range gates {
		gate.Open()
		st.must(<-done[i])
	}
}

// verdict ends the history and judges it.
func (st *recordedMarket) verdict() CheckResult {
	st.Helper()
	final, err := market.ReadSnapshot(st.Context(), st.conn, st.keys, 3)
	st.must(err)
	st.must(st.writer.Finish(final))
	h, err := Read(st.dir)
	st.must(err)
	return Check(st.Context(), h)
}

// finds checks that a part, and no other, is violated, and what it says.
func (st *recordedMarket) finds(v CheckResult, part string, says ...string) {
	st.Helper()
	for _, p := range v.Parts {
		if (p.Answer == Violated) != (p.Name == part) {
			st.Errorf("%s: %s: %v", p.Name, p.Answer, p.Stories)
		}
	}
	for _, text := range says {
		if p := v.Part(part); len(p.Stories) == 0 || !strings.Contains(p.Stories[0].Text, text) {
			st.Errorf("%v does not say %q", p.Stories, text)
		}
	}
}

// Two buyers decide to buy one item; unsafe sells it to both. The account is no witness here: a gift makes it right.
func TestUnsafeSellsTwice(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		st := newRecordedMarket(t, s)
		st.meet("unsafe", st.offer(0, 2), market.Order{Item: st.first, Seller: 1, Buyer: 3, Price: 80})
		st.must(st.conn.HIncrBy(t.Context(), st.keys.User(1), "funds", 80).Err())
		v := st.verdict()
		st.finds(v, "items", "sold by 1 to 2 for 80 coins", "sold by 1 to 3 for 80 coins", ": sold twice")
	})
}

// Two buyers with one account of 100 coins each decide to spend 80: the items and the sums are right.
func TestFineOverdrawsInOrder(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		st := newRecordedMarket(t, s)
		st.meet("fine", st.offer(0, 2), st.offer(1, 2))
		v := st.verdict()
		st.finds(v, "order of accounts", "account 2: holds 100 coins", "item 1 bought for 80 coins",
			"item 2 bought for 80 coins",
			"spent coins that it did not have")
		if p := v.Part("locks"); p.Answer != Linearizable {
			t.Errorf("locks: %+v", p)
		}
	})
}

// With the account locked, too, the second order is refused, and the history is in order.
func TestFineWalletIsLinearizable(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		st := newRecordedMarket(t, s)
		first, second := st.offer(0, 2), st.offer(1, 2)
		held, waiting := points.Hold(points.BeforeWrite), points.Hold(points.Waiting)
		t.Cleanup(held.Open)
		t.Cleanup(waiting.Open)
		results := make(chan error, 2)
		one, other := st.trader("fine-wallet", s, held.Observe), st.trader("fine-wallet", s, waiting.Observe)
		go func() { results <- one.buy(first) }()
		<-held.Reached()
		go func() { results <- other.buy(second) }()
		<-waiting.Reached()
		held.Open()
		st.must(<-results)
		waiting.Open()
		if err := <-results; !errors.Is(err, market.ErrInsufficientFunds) {
			t.Errorf("the second order: %v, want %v", err, market.ErrInsufficientFunds)
		}
		v := st.verdict()
		if v.Answer != Linearizable || v.Part("locks").Answer != Linearizable {
			t.Errorf("verdict: %+v", v)
		}
	})
}

// A purchase whose reply is lost is unknown, and fits, whether it was applied or not.
func TestLostReply(t *testing.T) {
	for name, lose := range map[string]func(*testkit.Proxy){
		"applied":     func(p *testkit.Proxy) { p.LoseReply("exec") },
		"not applied": func(p *testkit.Proxy) { p.LoseCommand("exec") },
	} {
		for _, spec := range []string{"watch", "fine"} {
			t.Run(name+"/"+spec, func(t *testing.T) {
				s := testkit.Local(t)
				st := newRecordedMarket(t, s)
				proxy := testkit.StartProxy(t, s)
				o := st.offer(0, 2)
				buyer := st.trader(spec, proxy.Server(), func(_ context.Context, at points.Name) {
					if at == points.BeforeWrite { // reads may end with EXEC, too
						lose(proxy)
					}
				})
				if err := buyer.buy(o); err == nil || market.Refused(err) {
					t.Fatalf("the order: %v, want an unknown outcome", err)
				}
				v := st.verdict()
				h, err := Read(st.dir)
				st.must(err)
				last := h.Ops[len(h.Ops)-1]
				if last.Outcome != Unknown {
					t.Errorf("recorded as %+v", last)
				}
				if v.Answer != Linearizable {
					t.Errorf("verdict: %+v", v)
				}
			})
		}
	}
}
