package markettest

import (
	"sync"

	"github.com/marketsim/marketsim/market"
)

// contestants is how many workers meet.
const contestants = 8

func oneOrderIsApplied(f *floor) {
	order := f.worker(nil).lists(f.mint(seller), 30)
	var orders []market.Order
	for i := range contestants {
		order.Buyer = buyer + market.UserID(i)
		orders = append(orders, order)
	}
	if n := f.contest(orders); n != 1 {
		f.Errorf("%d of %d orders of one item were applied, want 1", n, contestants)
	}
}

func accountIsNotOverdrawn(f *floor) {
	first := f.mint(seller)
	w := f.worker(nil)
	var orders []market.Order
	for i := range contestants {
		orders = append(orders, w.lists(first+market.ItemID(i), crowd.Funds*2/3))
	}
	if n := f.contest(orders); n != 1 {
		f.Errorf("%d purchases were paid from an account that can pay 1", n)
	}
	if funds := f.snapshot().Funds[buyer]; funds < 0 {
		f.Errorf("the account is overdrawn: %d coins", funds)
	}
}

const (
	tradeSellers = 3
	tradeBuyers  = 4
	tradeItems   = 25 // of each seller
	tradePrice   = 1
)

// manyTrade lets sellers list while every buyer tries to buy every item. All can pay for all, so each item is sold,
// once.
func manyTrade(f *floor) {
	feeds := make([]chan market.Order, tradeBuyers)
	for i := range feeds {
		feeds[i] = make(chan market.Order, tradeSellers*tradeItems)
	}
	var sellers, buyers sync.WaitGroup
	for s := market.UserID(1); s <= tradeSellers; s++ {
		w, first := f.worker(nil), f.mint(s)
		sellers.Go(func() { w.sell(s, first, feeds) })
	}
	sold := make([]int, tradeBuyers)
	for i, feed := range feeds {
		w := f.worker(nil)
		buyers.Go(func() { sold[i] = w.buy(tradeSellers+market.UserID(i+1), feed) })
	}
	sellers.Wait()
	for _, feed := range feeds {
		close(feed)
	}
	buyers.Wait()
	total := 0
	for _, n := range sold {
		total += n
	}
	if want := tradeSellers * tradeItems; total != want {
		f.Errorf("%d purchases were applied, want %d: one an item", total, want)
	}
}

// sell lists items and tells every buyer of them.
func (w *worker) sell(as market.UserID, first market.ItemID, feeds []chan market.Order) {
	for item := first; item < first+tradeItems; item++ {
		if err := w.list(w.floor.ctx, market.Listing{Item: item, Seller: as, Price: tradePrice}); err != nil {
			w.floor.Errorf("list item %d: %v", item, err)
			continue
		}
		for _, feed := range feeds {
			feed <- market.Order{Item: item, Seller: as, Price: tradePrice}
		}
	}
}

// buy orders all it is told of and returns how much of it was bought.
func (w *worker) buy(as market.UserID, feed <-chan market.Order) (bought int) {
	for o := range feed {
		o.Buyer = as
		switch err := w.purchase(w.floor.ctx, o); {
		case err == nil:
			bought++
		case !market.Refused(err):
			w.floor.Errorf("order of item %d has an unknown outcome although nothing broke: %v", o.Item, err)
		}
	}
	return bought
}
