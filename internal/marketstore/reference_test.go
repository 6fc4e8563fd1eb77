package marketstore_test

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/market"
)

func TestReferenceTrades(t *testing.T) {
	r := marketstore.NewReference(market.Opening{Accounts: 2, Funds: 100})
	if first := r.Mint(1); first != 1 {
		t.Fatalf("Mint = %d, want 1", first)
	}
	if first := r.Mint(2); first != market.BatchSize+1 {
		t.Fatalf("second Mint = %d, want %d", first, market.BatchSize+1)
	}

	list := func(item market.ItemID, price int64) error {
		_, err := r.List(t.Context(), market.Listing{Item: item, Seller: 1, Price: price})
		return err
	}

	purchase := func(item market.ItemID, price int64) error {
		_, err := r.Purchase(t.Context(), market.Order{Item: item, Seller: 1, Buyer: 2, Price: price})
		return err
	}

	for i, c := range []struct{ got, want error }{
		{purchase(1, 30), market.ErrNotListed},
		{list(1, 30), nil},
		{list(1, 30), market.ErrNotOwned},
		{list(market.BatchSize+1, 30), market.ErrNotOwned},
		{purchase(1, 29), market.ErrPriceChanged},
		{purchase(1, 30), nil},
		{purchase(1, 30), market.ErrNotListed},
		{list(2, 71), nil},
		{purchase(2, 71), market.ErrInsufficientFunds},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("operation %d returned %v, want %v", i+1, c.got, c.want)
		}
	}

	s := r.Snapshot()
	if s.Funds[1] != 130 || s.Funds[2] != 70 || !s.Inventory[2][1] || s.Inventory[1][1] || len(s.Listings) != 1 {
		t.Errorf("funds %v, listings %v", s.Funds, s.Listings)
	}
}
