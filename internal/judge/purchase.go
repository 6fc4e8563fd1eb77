package judge

import (
	"context"
	"errors"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

// MarketNames are the programs of purchases, as markettest has them: two buyers of one item,
// and two purchases from one account that has funds for one.
func MarketNames() []string { return []string{"one-item", "one-account"} }

// A shop is the market of a world whose clients buy, once each. Its keys have no
// prefix: the server is theirs alone.
type shop struct {
	suite.Market
	conn *redisconn.Conn

	// Of the schedule that is played.
	ledgers []*market.Ledger // of each client
	bought  int
	refused int
}

// order is the order that a client is told to make.
func (s *shop) order(client int) market.Order { return s.Traders[client].Trades[0] }

// open deletes all that the server holds, also what the program keeps for itself, be it
// in another database, and fills the market. The world has started that server, for itself.
func (s *shop) open(ctx context.Context) error {
	s.ledgers = []*market.Ledger{{}, {}}
	s.bought = 0
	s.refused = 0

	err := s.conn.FlushAll(ctx).Err()
	s.Seed(func(command ...any) {
		err = errors.Join(err, s.conn.Do(ctx, command...).Err())
	}, market.Keys{})
	return err
}

// answered notes what a client has answered to its order. What is no answer, or none,
// tells nothing: it may have bought.
func (s *shop) answered(client int, word string) {
	err, known := program.ParseOutcome(word)
	switch {
	case !known:
		err = program.ErrOutcomeUnknown
	case err == nil:
		s.bought++
	case market.Refused(err):
		s.refused++
	}
	s.ledgers[client].Purchased(s.order(client), err)
}

// audit judges the market at the end of a schedule.
func (s *shop) audit(ctx context.Context) []verify.Violation {
	return s.Audit(ctx, s.conn.Client, market.Keys{}, s.ledgers...)
}
