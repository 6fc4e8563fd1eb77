package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// masters are the connections of one worker to independent Redis masters.
type masters []*master

func newMasters(dialers []func(context.Context) (*redis.Client, error), timeout time.Duration) masters {
	all := make(masters, len(dialers))
	for i, dial := range dialers {
		all[i] = &master{dial: dial, timeout: timeout}
	}
	return all
}

// An ask is what is asked of one master; true is a vote in favour.
type ask func(ctx context.Context, rdb *redis.Client) (bool, error)

// each asks one master after the other, all of them.
func (m masters) each(ctx context.Context, question ask) votes {
	v := votes{of: len(m)}
	for _, node := range m {
		yes, err := node.do(ctx, question)
		switch {
		case err != nil:
			v.failures = append(v.failures, err)
		case yes:
			v.yes++
		}
	}
	return v
}

// Close closes the connections that there are.
func (m masters) Close() error {
	var errs []error
	for _, node := range m {
		errs = append(errs, node.close())
	}
	return errors.Join(errs...)
}

// votes are the answers of masters. What failed may have been done nevertheless.
type votes struct {
	of, yes  int
	failures []error
}

func (v votes) quorum() int { return v.of/2 + 1 }

func (v votes) majority() bool { return v.yes >= v.quorum() }

// quorumError is nil when a majority did what it was asked for, whatever it answered.
func (v votes) quorumError(what string) error {
	if n := v.of - len(v.failures); n < v.quorum() {
		return fmt.Errorf("only %d of %d masters %s: %w", n, v.of, what, errors.Join(v.failures...))
	}
	return nil
}

// stillHeld is nil when a majority voted in favour, ErrLost when there can be none, and another error when nobody knows.
func (v votes) stillHeld() error {
	switch {
	case v.majority():
		return nil
	case v.yes+len(v.failures) < v.quorum():
		return ErrLost
	}
	return fmt.Errorf("%d of %d masters agreed, and others failed: %w", v.yes, v.of, errors.Join(v.failures...))
}

// master is a connection that is opened when it is first needed, and anew after a failure: a node that is down costs
// no more than the time-out each time, and is used again as soon as it is back.
type master struct {
	dial    func(context.Context) (*redis.Client, error)
	timeout time.Duration
	mu      sync.Mutex
	rdb     *redis.Client
}

func (m *master) do(ctx context.Context, question ask) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	if m.rdb == nil {
		rdb, err := m.dial(ctx)
		if err != nil {
			return false, err
		}
		m.rdb = rdb
	}
	yes, err := question(ctx, m.rdb)
	var answered redis.Error
	if err != nil && !errors.As(err, &answered) {
		// A late reply is thrown away with its connection; that closing fails changes nothing.
		_ = m.rdb.Close()
		m.rdb = nil
	}
	return yes, err
}

func (m *master) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rdb == nil {
		return nil
	}
	err := m.rdb.Close()
	m.rdb = nil
	return err
}

func askSet(key, token string, ttl time.Duration) ask {
	return func(ctx context.Context, rdb *redis.Client) (bool, error) {
		err := rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", key, token, "nx", "px", ttl.Milliseconds()))
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	}
}

func askDelete(key, token string) ask {
	return func(ctx context.Context, rdb *redis.Client) (bool, error) {
		found, err := compareDelete.Run(ctx, rdb, []string{key}, token).Int64()
		return found == 1, err
	}
}

func askExpire(key, token string, ttl time.Duration) ask {
	return func(ctx context.Context, rdb *redis.Client) (bool, error) {
		found, err := compareExpire.Run(ctx, rdb, []string{key}, token, ttl.Milliseconds()).Int64()
		return found == 1, err
	}
}
