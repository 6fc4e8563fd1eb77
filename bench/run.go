package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// auditTimeout and removeTimeout bound the work on a server that may be dying.
const (
	auditTimeout  = 5 * time.Minute
	removeTimeout = time.Minute
)

// Run measures one row: it seeds a market under c.Keys, loads it, audits it and removes it. When ctx ends, the
// operations in flight are finished and the row is audited and removed all the same; its status is then Interrupted.
//
// An error means that the environment failed or, wrapping ErrConfig, that c cannot be run. The row then holds what
// was measured until the failure, with status Incomplete, audited if that was possible. A violation found by the
// audit is not an error: it is in the row.
func Run(ctx context.Context, c Config) (row Row, err error) {
	if err := c.validate(); err != nil {
		return Row{}, err
	}
	defer func() {
		if err != nil {
			row.Status = Incomplete
			err = fmt.Errorf("row %s %s: %w", c.Subject, c.Mix, err)
		}
	}()
	ours, seedErr := c.seed(ctx)
	if ours && !c.Keep {
		defer func() { err = errors.Join(err, c.remove(context.WithoutCancel(ctx))) }()
	}
	if seedErr != nil {
		return c.unstarted(ctx, seedErr)
	}
	crew, err := hire(ctx, c)
	if err != nil {
		return c.unstarted(ctx, err)
	}
	if c.Rough != nil {
		return c.runRough(ctx, crew)
	}
	crew.work(ctx, c.Warmup, c.duration())
	err = crew.brake.cause
	if late := crew.brake.late; late != nil && crew.brake.status == Complete {
		err = fmt.Errorf("an operation failed as the row ended: %w", late)
	}
	closing := crew.close()
	if err == nil {
		err = closing // after a failure, that closing failed too is no news
	}
	row = crew.row(c)
	var auditErr error
	row.Audit, auditErr = c.audit(context.WithoutCancel(ctx), crew.ledgers())
	return row, errors.Join(err, auditErr, c.finish(context.WithoutCancel(ctx), crew.history))
}

// unstarted is the row of a run that failed, or was stopped by the user, before it measured anything.
func (c Config) unstarted(ctx context.Context, err error) (Row, error) {
	row := (&crew{brake: newBrake()}).row(c)
	if ctx.Err() != nil {
		row.Status, err = Interrupted, nil
	}
	return row, err
}

// seed opens the market. What half a seeding left is ours, too; it is not when the server cannot be reached or the
// prefix is, or may be, somebody else's.
func (c Config) seed(ctx context.Context) (ours bool, err error) {
	conn, err := c.direct(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	err = market.Seed(ctx, conn.Client, c.Keys, c.opening())
	return !errors.Is(err, market.ErrOccupied) && !errors.Is(err, market.ErrUnclaimed), err
}

// noAudit is the verdict on a market that was not audited.
func noAudit() Audit { return Audit{Problems: []string{}} }

// audit judges the market that the workers left.
func (c Config) audit(ctx context.Context, ledgers []*market.Ledger) (Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	conn, err := c.direct(ctx)
	if err != nil {
		return noAudit(), fmt.Errorf("the market could not be audited: %w", err)
	}
	defer conn.Close()
	v, err := market.Audit(ctx, conn.Client, c.Keys, c.opening(), ledgers...)
	if err != nil {
		return noAudit(), fmt.Errorf("the market could not be audited: %w", err)
	}
	return Audit{
		Done: true, OK: v.OK(), Items: v.Items, Funds: v.Funds, ItemProblems: v.ItemProblems,
		MoneyProblems: v.MoneyProblems, Applied: v.Applied, NotApplied: v.NotApplied,
		Problems: append([]string{}, v.Problems...),
	}, nil
}

// direct connects for what is not to be measured and not to be struck.
func (c Config) direct(ctx context.Context) (*backend.Conn, error) {
	if c.Rough != nil {
		return c.Rough.Direct(ctx)
	}
	return c.Dial(ctx)
}

// remove deletes the market. A failure names the command that repeats it.
func (c Config) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	err := c.removeMarket(ctx)
	if err != nil && !c.Private {
		return fmt.Errorf("keys of the run are left behind: %w; remove them with 'marketsim clean --prefix %s'",
			err, c.Keys.Prefix())
	}
	return nil
}

func (c Config) removeMarket(ctx context.Context) error {
	conn, err := c.direct(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	made, err := market.ReadMade(ctx, conn.Client, c.Keys)
	if errors.Is(err, redis.Nil) {
		return nil // nothing was seeded
	}
	if err != nil {
		return err
	}
	_, err = market.Remove(ctx, conn.Client, c.Keys, made, c.Subject.LockKeys(c.Keys, made))
	return err
}
