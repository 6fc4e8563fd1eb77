package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A Market is a program for package explore: a few orders and listings, judged
// by the market's own audit.
type Market struct {
	Name    string
	Funds   int64 // of each account; there are as many as buyers, and a seller
	Listed  int   // items 1 to Listed are for sale at first; Listed+1 is in the seller's inventory
	Traders []Trader
	// Clients send a command again whose reply did not come, as client
	// libraries do by default.
	Resends     bool
	BeginsLater bool // see explore.Program
	// Each client buys from the other: they can wait for each other's accounts.
	PayEachOther bool
	// How many servers the locks have of their own, which may forget them; 0:
	// they live in the market's.
	LockServers int
	// Lease is how long locks last, Reply how long a client waits for a reply, and
	// Patience how long for a lock. If Lease is longer than Reply, a client gives up a
	// late write while its lock lasts, and else after it has expired.
	Lease, Reply, Patience time.Duration
}

// A Trader is a client in a market, with what it does, one after the other.
type Trader struct {
	Client string
	Trades []market.Order // without a buyer the seller lists the item
}

const price = 40 // of each item

func trade(item market.ItemID, from, to market.UserID) market.Order {
	return market.Order{Item: item, Seller: from, Buyer: to, Price: price}
}

func ordered(client string, buyer market.UserID, item market.ItemID) Trader {
	return Trader{client, []market.Order{trade(item, seller, buyer)}}
}

// Markets are the programs that every purchaser is explored with: those of two
// clients with short leases, and with long ones, because each alone shows half
// of what a late request does. Their names are in tokens, and BrokenPromise knows
// one-account by its name. Tests of several packages take one-item as the first.
func Markets() []Market {
	alice, bob, carol := ordered("Alice", 2, 1), ordered("Bob", 3, 1), ordered("Carol", 4, 1)
	lists := ordered("Seller", 0, 1)
	// Alice buys for user 2, then for the seller, which lists it again: the market
	// comes back to its start.
	thereAndBack := Trader{"Alice", []market.Order{
		trade(1, seller, 2),
		trade(1, 2, 0),
		trade(1, 2, seller),
		trade(1, seller, 0),
	}}

	all := []Market{
		{Name: "one-item", Funds: 100, Listed: 1, Traders: []Trader{alice, bob}, BeginsLater: true},
		{Name: "one-account", Funds: 60, Listed: 2, Traders: []Trader{alice, ordered("Alice too", 2, 2)}},
		{Name: "pay-each-other", Funds: 100, Listed: 2, PayEachOther: true, Traders: []Trader{
			{Client: "Alice", Trades: []market.Order{trade(1, 3, 2)}},
			{Client: "Bob", Trades: []market.Order{trade(2, 2, 3)}},
		}},
		{Name: "locks-apart", Funds: 100, Listed: 1, Traders: []Trader{alice, bob}, LockServers: 1},
		{Name: "three-masters", Funds: 100, Listed: 1, Traders: []Trader{alice, bob}, LockServers: 3},
		{Name: "relisted", Funds: 100, Listed: 1, Traders: []Trader{thereAndBack, bob}, Resends: true},
		{Name: "listing", Funds: 100, Traders: []Trader{lists, alice, bob}},
		{Name: "three-buyers", Funds: 100, Listed: 1, Traders: []Trader{alice, bob, carol}},
	}

	// The range is over those above: what the loop appends is complete.
	for i := range all {
		all[i].Lease = explore.Lease
		all[i].Reply = explore.Reply
		all[i].Patience = 4 * explore.Lease
		if len(all[i].Traders) > 2 {
			continue
		}

		long := all[i]
		long.Name += "-long-leases"
		long.Lease = 4 * time.Second
		long.Reply = 1500 * time.Millisecond
		long.Patience = 8 * time.Second
		all = append(all, long)
	}
	return all
}

// MarketNamed is the market of that name; false: there is none.
func MarketNamed(name string) (Market, bool) {
	for _, m := range Markets() {
		if m.Name == name {
			return m, true
		}
	}
	return Market{}, false
}

// Explore goes through every schedule of this market's program, within what Within leaves of
// b. Three clients get one preemption and one fault at most, so that a test takes seconds.
func (m Market) Explore(t *testing.T, subject string, open market.Open, b explore.Bounds) {
	t.Helper()
	SearchesAlone(t)
	if len(m.Traders) > 2 {
		b.Preemptions, b.Faults = min(b.Preemptions, 1), min(b.Faults, 1)
	}

	r, err := Search(t, m.Program(subject, open), m.Within(b), func(f explore.Found) {
		fmt.Fprintf(t.Output(), "%s, %s: %s, with %d preemptions and %d faults\n\n%s\nIts token: %s\n\n",
			subject, m.Name, f.Harm, f.Preemptions, f.Faults, f.Diagram, f.Token)
		t.Fail()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %s: %s", subject, m.Name, Bound(r))
}

// Within are the bounds of a search of this market's program. With a client that trades four
// times, or locks on several servers, a search without a bound on preemptions takes more than
// 40,000 schedules: it gets one preemption at most.
func (m Market) Within(b explore.Bounds) explore.Bounds {
	tradesOften := func(t Trader) bool { return len(t.Trades) > 2 }
	if m.LockServers > 1 || slices.ContainsFunc(m.Traders, tradesOften) {
		b.Preemptions = min(b.Preemptions, 1)
	}
	return b
}

// Program makes the program of purchasers that open makes.
func (m Market) Program(subject string, open market.Open) explore.Program {
	keys, _ := market.NewKeys("m:") // which is a prefix
	// One for all schedules of a search, which are played one after the other: no lock guards it.
	judged := map[string][]verify.Violation{}

	return explore.Program{
		Name:        m.Name,
		Subject:     subject,
		Prefix:      keys.Prefix(),
		LockServers: m.LockServers,
		Lease:       m.Lease,
		Reply:       m.Reply,
		Resends:     m.Resends,
		BeginsLater: m.BeginsLater,
		Begin: func(s *explore.Server) *explore.Trial {
			m.Seed(func(command ...any) {
				s.Do(command...)
			}, keys)
			run := &trading{Market: m, keys: keys, judged: judged}
			return run.trial(open)
		},
	}
}

// Seed opens the market by commands that do executes. Audit adds the rest of
// the batch of items.
func (m Market) Seed(do func(command ...any), keys market.Keys) {
	for id := range m.accounts() {
		do(marketstore.AccountCommand(keys, market.UserID(id+1), m.Funds)...)
	}
	for _, l := range m.listed() {
		do("ZADD", keys.Market(), l.Price, market.Member(l.Item, l.Seller))
	}
	do("SADD", keys.Inventory(seller), m.Listed+1)
}

// Audit is one violation of all that the market's own audit finds, under the name of the
// worst. Ledgers are those of the clients. A ledger notes minted items by whole batches,
// so the rest of the batch is made first.
func (m Market) Audit(
	ctx context.Context, rdb redis.Cmdable, keys market.Keys, ledgers ...*market.Ledger,
) []verify.Violation {
	var rest []any
	for id := m.Listed + 2; id <= market.BatchSize; id++ {
		rest = append(rest, id)
	}
	if err := rdb.SAdd(ctx, keys.Inventory(seller), rest...).Err(); err != nil {
		return notAudited(err)
	}

	// The first ledger is of what Seed has put there: items 1 to Listed+1.
	var first market.Ledger
	first.Minted(1, seller, nil)
	for _, l := range m.listed() {
		if l.Seller != seller { // all items are minted by one: this one was then given away
			given := market.Order{Item: l.Item, Seller: seller, Buyer: l.Seller}
			first.Listed(listing(given), nil)
			first.Purchased(given, nil)
		}
		first.Listed(l, nil)
	}
	opening := market.Opening{Accounts: m.accounts(), Funds: m.Funds}
	ledgers = append([]*market.Ledger{&first}, ledgers...)
	result, err := market.Audit(ctx, rdb, keys, opening, ledgers...)
	switch {
	case err != nil:
		return notAudited(err)
	case result.OK():
		return nil
	}
	texts := wording.Names(result.Problems, market.Problem.String)
	worst := verify.Worst(findings.OfAudit(result))
	return []verify.Violation{{Harm: worst.Harm, Text: strings.Join(texts, "; ")}}
}

func notAudited(err error) []verify.Violation {
	why := "the market cannot be audited: " + err.Error()
	return []verify.Violation{{Harm: verify.Unexplained, Text: why}}
}

func (m Market) listed() []market.Listing {
	all := make([]market.Listing, m.Listed)
	for i := range all {
		item := market.ItemID(i + 1)
		all[i] = listing(trade(item, m.sellerOf(item), 0))
	}
	return all
}

// sellerOf is from whom an item is bought first.
func (m Market) sellerOf(item market.ItemID) market.UserID {
	for _, t := range m.Traders {
		for _, o := range t.Trades {
			if o.Item == item {
				return o.Seller
			}
		}
	}
	return seller
}

func (m Market) accounts() int {
	last := seller
	for _, t := range m.Traders {
		for _, o := range t.Trades {
			last = max(last, o.Buyer)
		}
	}
	return int(last)
}

// ErrElsewhere is returned, wrapped, for a spec whose lock does not live in the
// servers of a market.
var ErrElsewhere = errors.New("its lock needs other servers")

// Spec parses a spec to be explored in this market, with the leases and time-outs of its
// clients, and few polls, since each is a point of the schedule. The error wraps
// strategies.ErrSpec or ErrElsewhere.
func (m Market) Spec(c strategies.Catalogue, text string) (strategies.Spec, error) {
	spec, err := c.Parse(text)
	if err != nil {
		return spec, err
	}

	times := map[param.Role]time.Duration{
		param.Lease:   m.Lease,
		param.Poll:    m.Lease * 3 / 10,
		param.Timeout: m.Patience,
	}
	has := lock.NeedsNothing
	if m.LockServers > 1 {
		has = lock.NeedsMasters
		times[param.Poll] *= 2 // each try is a request to each of them, and another to give back
	}
	if kind, _ := spec.Lock(); kind.Needs != has {
		needs := cmp.Or(string(kind.Needs), "one Redis")
		return spec, fmt.Errorf("%s cannot be explored in %s: %w: %s", spec, m.Name, ErrElsewhere, needs)
	}

	var params []string
	if has == lock.NeedsMasters { // chance would make the same choices lead to different points
		params = append(params, "jitter=0")
	}
	return WithDefaults(c, spec, times, params...), nil
}

// WithDefaults is a spec with other defaults of its parameters: times for those of some
// roles, and params. What the spec says itself stays.
func WithDefaults(
	c strategies.Catalogue, spec strategies.Spec, times map[param.Role]time.Duration, params ...string,
) strategies.Spec {
	for _, p := range spec.Params() {
		if value, set := times[p.Role]; set {
			params = append(params, p.Name+"="+value.String())
		}
	}

	for _, p := range params {
		with, err := c.Parse(spec.String() + ":" + p)
		if err == nil { // else the spec says it already
			spec = with
		}
	}
	return spec
}

// BrokenPromise is the promise that a harm in this market breaks; empty: none. A strategy
// whose lock is exclusive promises that items or accounts stay right without a fault. One
// without a lock promises it also when clients pause or die, since nothing of it expires.
// A lock may promise that wrong clocks of clients do no harm.
func (m Market) BrokenPromise(spec strategies.Spec, f explore.Found) string {
	protects := spec.Strategy().Protects
	protected := protects.Items
	promise := "no item is sold twice, and no coin is lost"
	if m.PayEachOther || strings.HasPrefix(m.Name, "one-account") {
		protected = protects.Accounts
		promise = "an account that several spend from is not overdrawn"
	}

	_, locks := spec.Lock()
	lockPromises := spec.Promises()
	switch {
	case f.Harm == verify.WaitForEachOther: // which no lock promises to prevent
		return ""
	case !protected || locks && !lockPromises.Exclusive:
		return ""
	case struckOnlyBy(f), !locks && struckOnlyBy(f, explore.Pause, explore.Die):
		return promise
	case struckOnlyBy(f, explore.Clock) && lockPromises.ClockIndependent:
		return "clock-independent" // as lock.Promises.List names it
	}
	return ""
}

// struckOnlyBy reports whether no other faults happened in a schedule.
func struckOnlyBy(f explore.Found, faults ...explore.Fault) bool {
	isAnother := func(s explore.Fault) bool { return !slices.Contains(faults, s) }
	return !slices.ContainsFunc(f.Struck, isAnother)
}
