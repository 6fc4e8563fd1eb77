package findings_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

const (
	seller = market.UserID(1)
	buyer  = market.UserID(2)
	other  = market.UserID(3)
)

// sold is a market in which the buyer has bought the seller's first item for 40
// coins, of accounts with 100.
func sold() market.Snapshot {
	s := market.Snapshot{
		Funds:     map[market.UserID]int64{seller: 140, buyer: 60, other: 100},
		Inventory: map[market.UserID]map[market.ItemID]bool{seller: {}, buyer: {1: true}, other: {}},
		Listings:  map[string]int64{},
	}
	for item := market.ItemID(2); item <= market.BatchSize; item++ {
		s.Inventory[seller][item] = true
	}
	return s
}

// audit puts a market of three accounts on a server, and audits it.
func audit(
	t *testing.T, server *backend.Server, s market.Snapshot, l *market.Ledger,
) market.AuditResult {
	rdb, keys := testkit.Dial(t, server).Client, testkit.Keys(t)
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for user, coins := range s.Funds {
			p.HSet(t.Context(), keys.User(user), "funds", coins)
		}
		for user, items := range s.Inventory {
			for item := range items {
				p.SAdd(t.Context(), keys.Inventory(user), int64(item))
			}
		}
		for member, price := range s.Listings {
			p.ZAdd(t.Context(), keys.Market(), redis.Z{Score: float64(price), Member: member})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	result := testkit.Must(market.Audit(t.Context(), rdb, keys,
		market.Opening{Accounts: 3, Funds: 100}, l))(t)
	return result
}

// Each thing that can be wrong with a market has its name, and nothing has one
// where nothing is wrong.
func TestAudited(t *testing.T) {
	const told, untold = true, false
	server := testkit.Embedded(t)

	for name, c := range map[string]struct {
		told   bool // of the buyer: that it was bought
		change func(market.Snapshot)
		want   verify.Harm
	}{
		"nothing": {told, func(market.Snapshot) {}, verify.NoHarm},
		"two owners": {told, func(s market.Snapshot) {
			s.Inventory[other][1] = true
		}, verify.SoldTwice},
		"still listed": {told, func(s market.Snapshot) {
			s.Listings[market.Member(1, seller)] = 40
		}, verify.SoldTwice},
		"nowhere": {told, func(s market.Snapshot) {
			delete(s.Inventory[buyer], 1)
		}, verify.ItemLost},
		"never minted": {told, func(s market.Snapshot) {
			s.Inventory[other][5000] = true
		}, verify.Unexplained},
		"told no": {untold, func(s market.Snapshot) {
			s.Funds[seller], s.Funds[buyer] = 100, 100
		}, verify.ToldNo},
		"told no, and paid": {untold, func(market.Snapshot) {}, verify.ToldNo},
		"told yes": {told, func(s market.Snapshot) {
			delete(s.Inventory[buyer], 1)
			s.Listings[market.Member(1, seller)] = 40
		}, verify.ToldYes},
		"charged twice": {told, func(s market.Snapshot) {
			s.Funds[seller] += 40
			s.Funds[buyer] -= 40
		}, verify.ChargedTwice},
		"not paid": {told, func(s market.Snapshot) {
			s.Funds[seller] -= 40
			s.Funds[buyer] += 40
		}, verify.NotPaid},
		"overdrawn": {told, func(s market.Snapshot) {
			s.Funds[seller] += 80
			s.Funds[buyer] -= 80
		}, verify.Overdrawn},
		"coins lost":   {told, func(s market.Snapshot) { s.Funds[other]-- }, verify.CoinsLost},
		"coins made":   {told, func(s market.Snapshot) { s.Funds[other]++ }, verify.CoinsMade},
		"account gone": {told, func(s market.Snapshot) { delete(s.Funds, other) }, verify.CoinsLost},
	} {
		t.Run(name, func(t *testing.T) {
			var l market.Ledger
			l.Minted(1, seller, nil)
			l.Listed(market.Listing{Item: 1, Seller: seller, Price: 40}, nil)
			if c.told {
				l.Purchased(market.Order{Item: 1, Seller: seller, Buyer: buyer, Price: 40}, nil)
			}

			s := sold()
			c.change(s)

			found := findings.OfAudit(audit(t, server, s, &l))
			worst := verify.Worst(found)
			if worst.Harm != c.want || (worst.Text == "") != (c.want == verify.NoHarm) {
				t.Errorf("it is %q, want %q: %q", worst.Harm, c.want, found)
			}
		})
	}
}
