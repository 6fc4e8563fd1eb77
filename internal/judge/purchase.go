package judge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite/purchasers"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

// Markets are those of purchasers.Markets that programs are judged in: two buyers of one
// item, and two purchases from one account that has funds for one.
func Markets() []string { return []string{"one-item", "one-account"} }

// A shop is the market of a pair whose clients buy, once each. Its keys have no
// prefix: the server is theirs alone.
type shop struct {
	purchasers.Market
	conn    *redisconn.Conn
	ledgers []*market.Ledger // of this schedule
	yes, no int              // how many bought, and how many were refused
}

// order is the order that a client is told to make.
func (s *shop) order(i int) market.Order { return s.Traders[i].Trades[0] }

// buys is the line that has a program buy.
func buys(o market.Order) string {
	return fmt.Sprint("buy ", o.Item, " ", o.Buyer, " ", o.Seller, " ", o.Price)
}

// open deletes all keys of the server, also those that the program keeps for
// itself, and fills the market.
func (s *shop) open(ctx context.Context) error {
	s.ledgers, s.yes, s.no = []*market.Ledger{{}, {}}, 0, 0
	keys, err := s.conn.Keys(ctx, "*").Result()
	if err == nil && len(keys) > 0 {
		err = s.conn.Del(ctx, keys...).Err()
	}
	s.Seed(func(command ...any) { err = errors.Join(err, s.conn.Do(ctx, command...).Err()) }, market.Keys{})
	return err
}

var errUntold = errors.New("it is not known")

// purchased are the words with which an answer to an order begins.
const purchased = "bought gone price funds busy error"

// refusals are the errors that answers mean: none, an unknown outcome, or, for all
// others, that nothing was applied.
var refusals = map[string]error{
	"bought": nil, "gone": market.ErrNotListed, "price": market.ErrPriceChanged, "funds": market.ErrInsufficientFunds,
	"busy": market.ErrContended, "error": errUntold,
}

// Answer is what a program says of an order that has ended with err; without an
// error it is done.
func Answer(done string, err error) string {
	if err == nil {
		return done
	}
	for answer, refusal := range refusals {
		if refusal != nil && errors.Is(err, refusal) {
			return answer
		}
	}
	if market.Refused(err) {
		return "busy"
	}
	return "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

// tells notes what a client was told of its purchase. It returns false if that
// is no answer.
func (s *shop) tells(i int, answer string) bool {
	err, is := refusals[answer]
	switch {
	case !is:
		err = errUntold
	case err == nil:
		s.yes++
	case market.Refused(err):
		s.no++
	}
	s.ledgers[i].Purchased(s.order(i), err)
	return is
}

// audit judges the end of a schedule. A client that was told nothing may have bought.
func (s *shop) audit(p *pair) []verify.Violation {
	for i, c := range p.clients {
		if c.told == "" {
			s.ledgers[i].Purchased(s.order(i), errUntold)
		}
	}
	return s.Audit(p.ctx, s.conn.Client, market.Keys{}, s.ledgers...)
}
