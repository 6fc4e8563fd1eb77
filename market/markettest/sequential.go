package markettest

import (
	"maps"

	"github.com/marketsim/marketsim/market"
)

func listingMovesTheItem(f *floor) {
	item := f.mint(seller)
	want := f.snapshot()
	delete(want.Inventory[seller], item)
	want.Listings[market.Member(item, seller)] = 30

	f.worker(nil).lists(item, 30)
	f.matches(want)
}

func listingUnownedIsRefused(f *floor) {
	sellers, buyers := f.mint(seller), f.mint(buyer)
	w := f.worker(nil)
	w.lists(sellers, 30)
	before := f.snapshot()
	for _, item := range []market.ItemID{sellers, buyers, buyers + market.BatchSize} { // listed, another's, nobody's
		err := w.list(f.ctx, market.Listing{Item: item, Seller: seller, Price: 40})
		f.refused(err, market.ErrNotOwned, before)
	}
	f.mint(seller) // nobody's item, so that what locks on it left for good can be enumerated
}

func purchaseMovesItemAndCoins(f *floor) { purchaseAt(f, 30) }

func exactFundsSuffice(f *floor) { purchaseAt(f, couple.Funds) }

func purchaseAt(f *floor, price int64) {
	w := f.worker(nil)
	order := w.lists(f.mint(seller), price)
	want := f.snapshot()
	want.Funds[seller] += price
	want.Funds[buyer] -= price
	want.Inventory[buyer] = map[market.ItemID]bool{order.Item: true}
	maps.DeleteFunc(want.Listings, func(string, int64) bool { return true })

	f.applied(w.purchase(f.ctx, order))
	f.matches(want)
}

func orderOfUnlistedIsRefused(f *floor) {
	item := f.mint(seller)
	w := f.worker(nil)
	sold := w.lists(item, 30)
	f.applied(w.purchase(f.ctx, sold))
	listed := w.lists(item+1, 30)
	before := f.snapshot()

	unlisted, another := listed, listed
	unlisted.Item = item + 2
	another.Seller = buyer
	for _, o := range []market.Order{sold, unlisted, another} {
		f.refused(w.purchase(f.ctx, o), market.ErrNotListed, before)
	}
}

func orderAtAnotherPriceIsRefused(f *floor) {
	w := f.worker(nil)
	order := w.lists(f.mint(seller), 30)
	before := f.snapshot()
	for _, price := range []int64{29, 31} {
		order.Price = price
		f.refused(w.purchase(f.ctx, order), market.ErrPriceChanged, before)
	}
}

func orderBeyondFundsIsRefused(f *floor) {
	w := f.worker(nil)
	order := w.lists(f.mint(seller), couple.Funds+1)
	before := f.snapshot()
	f.refused(w.purchase(f.ctx, order), market.ErrInsufficientFunds, before)
}

func ownListingIsGivenBack(f *floor) {
	item := f.mint(seller)
	want := f.snapshot()
	w := f.worker(nil)
	order := w.lists(item, 30)
	order.Buyer = seller
	f.applied(w.purchase(f.ctx, order))
	f.matches(want)
}

func operationsLeaveNothingBehind(f *floor) {
	item := f.mint(seller)
	w := f.worker(nil)
	order := w.lists(item, 30)
	w.leftNothing("a listing")
	listed := market.Listing{Item: item, Seller: seller, Price: 30}
	if err := w.list(f.ctx, listed); market.Refused(err) {
		w.leftNothing("a refused listing")
	}

	cheaper, unlisted := order, order
	cheaper.Price = 29
	unlisted.Item = item + 1
	dear := w.lists(item+2, couple.Funds+1)
	for _, o := range []market.Order{cheaper, unlisted, dear} {
		if err := w.purchase(f.ctx, o); market.Refused(err) {
			w.leftNothing("a refused order (" + market.Reason(err) + ")")
		}
	}

	f.applied(w.purchase(f.ctx, order))
	w.leftNothing("a purchase")
}
