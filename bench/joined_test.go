package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/join"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// machines are the load machines of a test, each with a way of its own to the server.
type machines struct {
	*testing.T
	conn    *backend.Conn
	dials   []func(context.Context) (*backend.Conn, error)
	members []*join.Member
	runs    []*Joined
	config  Config
}

func newMachines(t *testing.T, s *backend.Server, dials ...func(context.Context) (*backend.Conn, error)) *machines {
	m := &machines{T: t, conn: testkit.Dial(t, s), dials: dials, config: Config{
		Mix: result.Mix{Sellers: 2, Buyers: 2}, Duration: time.Second, Warmup: 50 * time.Millisecond,
		Seed: DefaultSeed, Funds: DefaultFunds, Keys: testkit.Keys(t), Subject: spec(t, "watch"),
	}}
	for _, dial := range dials {
		member, err := join.Join(t.Context(), join.Config{
			ID: "nightly", Of: len(dials), Keys: m.config.Keys, Dial: dial, Silence: 2 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		m.members, m.runs = append(m.members, member), append(m.runs, NewJoined(member))
	}
	return m
}

// run lets all machines measure a row, each with a context of its own.
func (m *machines) run(c Config, ctxs ...context.Context) ([]result.Row, []error) {
	rows, errs := make([]result.Row, len(m.runs)), make([]error, len(m.runs))
	var all sync.WaitGroup
	for i, run := range m.runs {
		of := c
		of.Dial = m.dials[i]
		ctx := m.Context()
		if i < len(ctxs) {
			ctx = ctxs[i]
		}
		all.Go(func() { rows[i], errs[i] = run.Run(ctx, of) })
	}
	all.Wait()
	return rows, errs
}

// leave ends the run of machines, and fails unless nothing is left then.
func (m *machines) leave() {
	m.Helper()
	var all sync.WaitGroup
	for _, member := range m.members {
		all.Go(func() { _ = member.Leave(m.Context()) }) // one may have lost its way to the server
	}
	all.Wait()
	if left := m.conn.Keys(m.Context(), "*").Val(); len(left) > 0 {
		m.Errorf("there are still the keys %q", left)
	}
}

// traded returns when a buyer of the i-th machine has bought something.
func (m *machines) traded(i int) {
	c := m.config
	c.party = party{index: i, of: len(m.runs)}
	for m.conn.SCard(m.Context(), c.Keys.Inventory(c.account(Buyer, 0))).Val() == 0 {
	}
}

// boughtFrom returns when a buyer of a machine has bought something of a seller of another one.
func (m *machines) boughtFrom(buyer, seller int) {
	c := m.config
	c.party = party{index: buyer, of: len(m.runs)}
	bought := c.Keys.Inventory(c.account(Buyer, 0))
	c.party.index = seller
	for {
		unsold, _ := m.conn.SRandMember(m.Context(), c.Keys.Inventory(c.account(Seller, 0))).Int() // tells the batch
		for _, item := range m.conn.SMembers(m.Context(), bought).Val() {
			if id, _ := strconv.Atoi(item); (id-1)/market.BatchSize == (unsold-1)/market.BatchSize {
				return
			}
		}
	}
}

// TestJoinedRows: three machines of 2x2 measure rows of 6x6, each row with all that its parts hold, on one market.
func TestJoinedRows(t *testing.T) {
	s := testkit.Local(t)
	m := newMachines(t, s, s.Dial, s.Dial, s.Dial)
	for trial, name := range []string{"watch", "fine", "lua-shared"} {
		c := m.config
		c.Subject, c.Trial, c.Browsers = spec(t, name), trial+1, 0
		rows, errs := m.run(c)
		r := rows[0]
		if err := errors.Join(errs...); err != nil || r.Status != result.Complete {
			t.Fatalf("%s: %s, %v", name, r.Status, err)
		}
		for i, other := range rows[1:] {
			first, _ := json.Marshal(r)
			if text, _ := json.Marshal(other); string(text) != string(first) {
				t.Errorf("machine %d has the row %s\nand the first %s", i+2, text, first)
			}
		}
		if r.Name() != name+" 6x6" || r.Trial != trial+1 || r.Joined.Of != 3 || r.Joined.StartErrorMS <= 0 || r.Joined.Lost != nil {
			t.Errorf("the row is %s, trial %d, of %+v", r.Name(), r.Trial, r.Joined)
		}
		if !r.Audit.Done || !r.Audit.OK || r.Audit.Funds != 12*DefaultFunds {
			t.Errorf("%s: audit %+v", name, r.Audit)
		}
		var bought, steps int64
		for _, n := range r.PerBuyer {
			bought += n
		}
		for _, n := range r.Series.Purchases {
			steps += n
		}
		h, err := hdrhistogram.Decode([]byte(r.Histograms.Purchase))
		if err != nil {
			t.Fatal(err)
		}
		if r.Bought == 0 {
			t.Fatalf("%s: nothing was bought: %q", name, r.Warnings)
		}
		if len(r.PerBuyer) != 6 || bought != r.Bought || steps != r.Bought || *r.WaitMS.Count != r.Bought ||
			h.TotalCount() != r.Bought {
			t.Errorf("%s: %d bought, %v by buyer, %d in steps, %d waits, %d in the histogram", name, r.Bought, r.PerBuyer, steps,
				*r.WaitMS.Count, h.TotalCount())
		}
		if r.Seconds < 1 || r.Seconds > 2 || *r.WarmupSeconds != 0.05 {
			t.Errorf("%s: %v s after a warm-up of %v s", name, r.Seconds, *r.WarmupSeconds)
		}
	}
	if m.runs[0].Reporter() != 0 || m.runs[2].Reporter() != 0 {
		t.Errorf("machine %d reports, the last says %d", m.runs[0].Reporter(), m.runs[2].Reporter())
	}
	m.leave()
}

// TestJoinedRowThatLosesAMachine: the others end the row, say who is missing, and account for what it did. It says that it
// is cut off.
func TestJoinedRowThatLosesAMachine(t *testing.T) {
	s := testkit.Local(t)
	way := testkit.StartProxy(t, s)
	m := newMachines(t, s, way.Server().Dial, s.Dial, s.Dial) // the first, which would report
	c := m.config
	c.Subject, c.Duration = spec(t, "lua"), time.Hour
	go func() {
		m.boughtFrom(0, 1)
		m.boughtFrom(1, 0)
		way.Disconnect()
	}()
	rows, errs := m.run(c)
	if errs[0] == nil || rows[0].Status != result.Incomplete || m.runs[0].Reporter() != -1 {
		t.Errorf("the first machine: %s, %v", rows[0].Status, errs[0])
	}
	for i, r := range rows[1:] {
		if err := errs[i+1]; r.Status != result.Incomplete || err == nil ||
			err.Error() != "row lua 6x6: load machine 1 was lost: it was silent for 2s" {
			t.Errorf("machine %d: %s, %v", i+2, r.Status, err)
		}
	}
	r := rows[1]
	if !slices.Equal(r.Joined.Lost, []int{1}) || !strings.Contains(strings.Join(r.Warnings, "\n"), "load machine 1 is gone, and") ||
		len(r.PerBuyer) != 6 || r.PerBuyer[0] != 0 || r.PerBuyer[1] != 0 || r.Bought == 0 {
		t.Errorf("lost %v, %v by buyer, %q", r.Joined.Lost, r.PerBuyer, r.Warnings)
	}
	if !r.Audit.Done || !r.Audit.OK || r.Audit.Applied == 0 || r.Audit.Funds != 12*DefaultFunds {
		t.Errorf("audit %+v", r.Audit)
	}
	if m.runs[1].Reporter() != 1 || m.runs[2].Reporter() != 1 {
		t.Errorf("machine %d reports, the last says %d", m.runs[1].Reporter(), m.runs[2].Reporter())
	}
	m.leave()
}

// TestJoinedRowThatIsInterrupted by the user of one machine ends for all, with what was measured.
func TestJoinedRowThatIsInterrupted(t *testing.T) {
	s := testkit.Local(t)
	m := newMachines(t, s, s.Dial, s.Dial)
	c := m.config
	c.Duration = time.Hour
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		m.traded(0)
		m.traded(1)
		interrupt()
	}()
	rows, errs := m.run(c, t.Context(), ctx)
	for i, r := range rows {
		if errs[i] != nil || r.Status != result.Interrupted || !r.Audit.OK || r.Audit.Items == 0 || r.Joined.Lost != nil {
			t.Errorf("machine %d: %s, audit %+v, %v", i+1, r.Status, r.Audit, errs[i])
		}
	}
	m.leave()
}

// TestJoinedRowThatFailsOnOneMachine: all say why, and what was traded is audited.
func TestJoinedRowThatFailsOnOneMachine(t *testing.T) {
	s := testkit.Local(t)
	m := newMachines(t, s, s.Dial, s.Dial)
	c := m.config
	c.Duration = time.Hour
	c.Subject = onPurchase(t, "watch", func(next attempt) (market.Receipt, error) { return next() })
	good := m.dials[1]
	m.dials[1] = func(ctx context.Context) (*backend.Conn, error) { return nil, errors.New("no route to host") }
	rows, errs := m.run(c)
	for i, r := range rows {
		if errs[i] == nil || errs[i].Error() != "row watch 4x4: load machine 2 failed: no route to host" ||
			r.Status != result.Incomplete || !r.Audit.OK {
			t.Errorf("machine %d: %s, audit %+v, %v", i+1, r.Status, r.Audit, errs[i])
		}
	}
	m.dials[1] = good
	m.leave()
}

// TestJoinedRowUnderAPrefixOfOthers: a market that is there already stays.
func TestJoinedRowUnderAPrefixOfOthers(t *testing.T) {
	s := testkit.Local(t)
	m := newMachines(t, s, s.Dial, s.Dial)
	opening := market.Opening{Accounts: 1, Funds: 7}
	if err := market.Seed(t.Context(), m.conn, m.config.Keys, opening); err != nil {
		t.Fatal(err)
	}
	rows, errs := m.run(m.config)
	for i, r := range rows {
		if errs[i] == nil || !strings.Contains(errs[i].Error(), "load machine 1 failed: "+market.ErrOccupied.Error()) || r.Audit.Done {
			t.Errorf("machine %d: audit %+v, %v", i+1, r.Audit, errs[i])
		}
	}
	made := market.Made{Accounts: 1}
	n, err := market.Remove(t.Context(), m.conn, m.config.Keys, made, m.config.Subject.LockKeys(m.config.Keys, made))
	if err != nil || n != 2 {
		t.Errorf("%d keys of the others were left, %v", n, err)
	}
	m.leave()
}

// TestJoinedRefuses what several processes cannot measure together.
func TestJoinedRefuses(t *testing.T) {
	s := testkit.Local(t)
	m := newMachines(t, s, s.Dial)
	for name, change := range map[string]func(*Config){
		"hot":     func(c *Config) { c.Hot, c.Mix.Sellers = 5, 0 },
		"rate":    func(c *Config) { c.Rate, c.Arrivals = 100, Poisson },
		"history": func(c *Config) { c.History = t.TempDir() },
		"keep":    func(c *Config) { c.Keep = true },
		"warm-up": func(c *Config) { c.WarmupMax = time.Minute },
	} {
		c := m.config
		change(&c)
		if _, errs := m.run(c); !errors.Is(errs[0], ErrConfig) {
			t.Errorf("%s: %v", name, errs[0])
		}
	}
	m.leave()
}

// TestMergeAddsUp: from what three processes recorded comes what one would have said that recorded all of it.
func TestMergeAddsUp(t *testing.T) {
	c := Config{Subject: noSubject{}, Mix: mix1x1, Duration: time.Second, party: party{of: 3}}
	var whole [waits]*hdrhistogram.Histogram
	tries := newHistogram()
	for w := range whole {
		whole[w] = newHistogram()
	}
	parts := make([]*part, 3)
	for i := range parts {
		p := &part{Row: result.Row{Status: result.Complete, Seconds: 1, PerBuyer: []int64{int64(100 * (i + 1))}}}
		some := newHistogram()
		for w := range whole {
			h := newHistogram()
			for n := range int64(100 * (i + 1)) {
				us := (n*7919+int64(w)*31)%50_000_000 + int64(i)
				whole[w].RecordValue(us)
				h.RecordValue(us)
			}
			p.Took[w] = encode(h)
		}
		for n := range int64(100 * (i + 1)) {
			tries.RecordValue(n%9 + 1)
			some.RecordValue(n%9 + 1)
		}
		p.Tries = encode(some)
		bought := int64(100 * (i + 1))
		us, trips := float64(6000)/float64(bought), float64(i+2)
		p.Row.Bought = bought
		p.Row.Cost = &result.Cost{Market: result.Bill{RoundTrips: trips}, ServerUS: &us, ClientUS: &us}
		p.Row.TimeMS = &result.Split{Rest: float64(i)}
		p.Within = time.Duration(i+1) * time.Millisecond
		parts[i] = p
	}
	r, err := merge(c, parts)
	if err != nil {
		t.Fatal(err)
	}
	var want result.Row
	summarize(&want, whole, tries)
	for name, of := range map[string][2]any{
		"wait": {r.WaitMS, want.WaitMS}, "list": {r.ListMS, want.ListMS}, "given up": {r.GivenUpMS, want.GivenUpMS},
		"tries": {r.Tries, want.Tries}, "histograms": {r.Histograms, want.Histograms},
	} {
		if !reflect.DeepEqual(of[0], of[1]) {
			t.Errorf("%s: %+v, want %+v", name, of[0], of[1])
		}
	}
	// 600 purchases: 100 of 2 round trips, 200 of 3, 300 of 4. Each process saw the server use 6,000 us, and used as many.
	near := func(name string, got, want float64) {
		if got < want*(1-1e-9) || got > want*(1+1e-9) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("purchases/s", r.PurchasesPerSecond, 600)
	near("round trips", r.Cost.Market.RoundTrips, 2000.0/600)
	near("server", *r.Cost.ServerUS, 10)
	near("client", *r.Cost.ClientUS, 30)
	near("rest", r.TimeMS.Rest, 800.0/600)
	near("Jain", r.Fairness.Jain, 36.0/42)
	near("start error", r.Joined.StartErrorMS, 5)
}

// TestMergeForgetsNoField: whatever processes say of a row is in the row of all of them.
func TestMergeForgetsNoField(t *testing.T) {
	c := Config{
		Subject: noSubject{}, Mix: mix1x1, Duration: time.Second, Browsers: 1, party: party{of: 2},
		Workload: result.Workload{HoldMS: 1, RTTMS: 1},
	}
	parts := make([]*part, 2)
	for i := range parts {
		p := &part{Series: &seriesForm{Step: stepFor(time.Second), Whole: int(time.Second / stepFor(time.Second))}}
		fill(reflect.ValueOf(&p.Row).Elem())
		p.Row.Status = result.Complete
		h := newHistogram()
		h.RecordValue(2000)
		for w := range p.Took {
			p.Took[w] = encode(h)
		}
		p.Tries, p.Within = encode(h), time.Millisecond
		for range p.Series.Whole {
			p.Series.Steps = append(p.Series.Steps, stepForm{Purchases: 1, Waits: map[int]uint32{1: 1}})
		}
		parts[i] = p
	}
	r, err := merge(c, parts)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"Open", "Chaos", "Nodes", "Audit"} // no joined row has the first three; the audit follows
	row := reflect.ValueOf(r)
	for field, value := range row.Fields() {
		if value.IsZero() && !slices.Contains(elsewhere, field.Name) {
			t.Errorf("%s is not in the merged row: say in merge.go what becomes of it", field.Name)
		}
	}
}

// fill sets everything in a value to something.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, value := range v.Fields() {
			fill(value)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("something")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	default:
		panic(fmt.Sprintf("what is a %s?", v.Kind()))
	}
}

// TestPartThatIsNone: a part that is cut short anywhere is refused.
func TestPartThatIsNone(t *testing.T) {
	p := &part{Row: result.Row{Strategy: "watch"}, ledgers: []*market.Ledger{market.NewLedger(2), market.NewLedger(2)}}
	form, err := p.marshal()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := readPart(form); err != nil || again.Row.Strategy != "watch" || len(again.ledgers) != 2 {
		t.Fatalf("read %+v, %v", again, err)
	}
	whole := 0 // forms that end where a ledger begins are parts with fewer ledgers
	for n := range form {
		if again, err := readPart(form[:n]); err == nil && len(again.ledgers) < 2 {
			whole++
		} else if err == nil {
			t.Errorf("%d of %d bytes are read as the whole", n, len(form))
		}
	}
	if whole > 2 {
		t.Errorf("%d forms that are cut short are read", whole)
	}
}
