package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// idle is how long a buyer waits for the first listings. It is not measured.
const idle = time.Millisecond

// worker is one seller, buyer or browser. All of it but the brake and the tickets is its own.
type worker struct {
	account   market.UserID // 0 for a browser
	accounts  int           // how many there are
	purchaser market.Purchaser
	closer    io.Closer
	conn      *backend.Conn // nil in tests without a server
	goods     goods
	ledger    *market.Ledger
	recorder  *recorder
	history   *history.Recorder // nil: nothing is recorded
	random    *rand.Rand
	brake     *brake
	tickets   *tickets // purchases still to be made; nil: as many as there is time for

	next, last market.ItemID // a seller's items that are not listed yet: from next to before last

	// Of rough rows only.
	keys     market.Keys
	open     func(context.Context) (*backend.Conn, market.Purchaser, io.Closer, error)
	seen     []market.Order // reused
	reopened int64
}

// sell lists items until the brake is pulled.
func (w *worker) sell(ctx context.Context) {
	for ; !w.brake.pulled.Load(); w.next++ {
		if w.next >= w.last {
			if err := w.mint(ctx); err != nil {
				w.brake.pull(Incomplete, err)
				return
			}
		}
		if err := w.list(ctx, w.next); fatal(err) {
			w.brake.pull(Incomplete, fmt.Errorf("list item %d: %w", w.next, err))
		}
	}
}

// mint makes the next items: from next to before last.
func (w *worker) mint(ctx context.Context) error {
	start := time.Now()
	first, err := w.goods.mint(ctx, w.account)
	w.history.Minted(start, time.Now(), first, w.account, err)
	w.ledger.Minted(first, w.account, err)
	if err == nil {
		w.next, w.last = first, first+market.BatchSize
	}
	return err
}

// list offers an item at a random price.
func (w *worker) list(ctx context.Context, item market.ItemID) error {
	l := market.Listing{Item: item, Seller: w.account, Price: minPrice + w.random.Int64N(maxPrice-minPrice+1)}
	start := time.Now()
	receipt, err := w.purchaser.List(ctx, l)
	end := time.Now()
	w.recorder.list(start, end, receipt, err)
	w.history.Listed(start, end, l, err)
	w.ledger.Listed(l, err)
	return err
}

// buy orders listings until the brake is pulled, the tickets are gone, or the account is empty.
func (w *worker) buy(ctx context.Context) {
	orders := make([]market.Order, 0, browseSize)
	for ticket := false; !w.brake.pulled.Load(); {
		var err error
		if orders, err = w.goods.browse(ctx, orders[:0], w.account); err != nil {
			w.brake.pull(Incomplete, err)
			return
		}
		if len(orders) == 0 {
			time.Sleep(idle)
			continue
		}
		w.random.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
		short := false
		for _, o := range orders {
			if w.brake.pulled.Load() {
				return
			}
			if !ticket && !w.tickets.take() {
				return
			}
			err := w.order(ctx, o)
			if fatal(err) {
				w.brake.pull(Incomplete, fmt.Errorf("purchase item %d: %w", o.Item, err))
			}
			ticket = err != nil
			short = short || errors.Is(err, market.ErrInsufficientFunds)
		}
		if short && w.broke(ctx) {
			if ticket {
				w.tickets.giveBack()
			}
			return
		}
	}
}

// order makes one purchase.
func (w *worker) order(ctx context.Context, o market.Order) error {
	before := w.traffic()
	start := time.Now()
	receipt, err := w.purchaser.Purchase(ctx, o)
	end := time.Now()
	w.recorder.purchase(start, end, w.traffic().Sub(before), receipt, err)
	w.history.Purchased(start, end, o, err)
	w.ledger.Purchased(o, err)
	return err
}

// broke reports whether the account cannot pay the lowest price. Only buyers spend, so it stays so.
func (w *worker) broke(ctx context.Context) bool {
	funds, err := w.goods.funds(ctx, w.account)
	if err != nil {
		w.brake.pull(Incomplete, err)
		return false
	}
	w.recorder.broke = funds < minPrice
	return w.recorder.broke
}

func (w *worker) traffic() backend.Counts {
	if w.conn == nil {
		return backend.Counts{}
	}
	return w.conn.Stats.Snapshot()
}

// fatal reports whether an operation failed because of the environment, so that going on would measure that.
func fatal(err error) bool {
	return err != nil &&
		(!market.Refused(err) || errors.Is(err, market.ErrRejected) || errors.Is(err, market.ErrNotSent))
}
