package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/market"
)

// record opens the row's history; nil without one.
func (c Config) record() (*history.Writer, error) {
	if c.History == "" {
		return nil, nil
	}
	return history.Create(c.History, history.Header{
		Run: c.Keys.Prefix(), Subject: c.Subject.String(), Mix: c.Mix.String(), Seed: c.Seed,
		Accounts: c.opening().Accounts, Funds: c.Funds,
	})
}

// finish closes the history with what the market holds now that every worker has gone. If that cannot be read, the
// history stays without an end, and gets no verdict.
func (c Config) finish(ctx context.Context, h *history.Writer) error {
	if h == nil {
		return nil
	}
	final, err := c.snapshot(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("the history in %s has no end: %w", c.History, err), h.Abandon())
	}
	return h.Finish(final)
}

func (c Config) snapshot(ctx context.Context) (market.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	conn, err := c.direct(ctx)
	if err != nil {
		return market.Snapshot{}, err
	}
	defer conn.Close()
	return market.ReadSnapshot(ctx, conn.Client, c.Keys, c.opening().Accounts)
}
