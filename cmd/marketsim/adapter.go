package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/fault"
	protocol "github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func newAdapter(p *program) *cobra.Command {
	return &cobra.Command{
		Use:    "adapter SPEC",
		Args:   arguments(1, 1),
		Hidden: true, // judge starts it as a control; authors start from a program of --adapter
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := openAdapter(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return errors.Join(a.serve(cmd.Context(), cmd.InOrStdin(), p.stdout), a.worker.Close())
		},
	}
}

// An adapter serves a scheme's lock and its purchases over lines of text, as a
// judged program does.
type adapter struct {
	worker *connect.Opened
	locker lock.Locker // nil: the strategy takes none
	lease  *lock.Lease // acquired last
}

// openAdapter opens what a spec names, with the server, keys and times that a judged
// program has in its environment.
func openAdapter(ctx context.Context, name string) (*adapter, error) {
	scheme, err := fault.SchemeOf(catalogue.Full(), name)
	if err != nil {
		return nil, usageError{err}
	}
	// With 4*ttl an acquisition outlasts the lease of a holder that has died and, with the
	// longest lease that judge tries (2s), still ends before program.AnswerLimit (10s).
	ttl := msFromEnv("LOCK_TTL_MS", 500)
	spec := suite.WithDefaults(catalogue.Full(), scheme.Spec, map[param.Role]time.Duration{
		param.Lease: ttl, param.Poll: msFromEnv("LOCK_RETRY_MS", 2), param.Timeout: 4 * ttl,
	})

	server, err := redisconn.ParseURL(os.Getenv("REDIS_URL"))
	var keys market.Keys
	// Under judge there is none: keys without a prefix are what it expects, and NewKeys refuses.
	if prefix := os.Getenv("KEY_PREFIX"); err == nil && prefix != "" {
		keys, err = market.NewKeys(prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL and KEY_PREFIX: %w", err)
	}

	// The strategy opens a lock of its own for what it buys; what "acquire" takes is another one.
	a := &adapter{}
	a.worker, err = connect.Open(ctx, spec, connect.MarketServers{Market: redisconn.To(server)}, connect.Counters{},
		strategies.Env{Keys: keys, Process: new(lock.ProcessState)})
	if _, locks := spec.Lock(); err == nil && locks {
		a.locker, err = spec.OpenLock(a.worker.Env)
	}
	return a, err
}

// msFromEnv reads milliseconds that judge has written.
func msFromEnv(variable string, otherwise int) time.Duration {
	n, _ := strconv.Atoi(os.Getenv(variable))
	return time.Duration(cmp.Or(n, otherwise)) * time.Millisecond
}

func (a *adapter) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if _, err := fmt.Fprintln(out, a.answer(ctx, lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// answer does what a line asks for, and says what came of it, as help/judge.txt tells.
func (a *adapter) answer(ctx context.Context, line string) string {
	var o market.Order
	var l market.Listing
	buys, _ := fmt.Sscanf(line, "buy %d %d %d %d", &o.Item, &o.Buyer, &o.Seller, &o.Price)
	lists, _ := fmt.Sscanf(line, "list %d %d %d", &l.Item, &l.Seller, &l.Price)
	words := strings.Fields(line)

	// Package program knows the answers to buy and list. Those to acquire and release are chosen
	// below, by the error. This error stays if no case fits: "now" and "can cancel" get it, too,
	// and judge takes that for a program that tells no time and hears no cancel.
	err := fmt.Errorf("this is not understood: %q", line)
	switch {
	case buys == 4:
		receipt, err := a.worker.Purchaser.Purchase(ctx, o)
		return protocol.AnswerLine(fmt.Sprint("bought ", receipt.Retries), err)
	case lists == 3:
		_, err := a.worker.Purchaser.List(ctx, l)
		return protocol.AnswerLine("listed", err)
	case len(words) == 2 && words[0] == "acquire" && a.locker != nil:
		a.lease, err = a.locker.Acquire(ctx, words[1])
		if err == nil && a.lease.Fence > 0 {
			return fmt.Sprintf("acquired %d", a.lease.Fence)
		}
		if err == nil {
			return "acquired"
		}
	case len(words) == 1 && words[0] == "release" && a.lease != nil:
		err = a.lease.Release(ctx)
		if err == nil {
			return "released"
		}
	}

	switch {
	case errors.Is(err, lock.ErrHeld), errors.Is(err, lock.ErrTimeout):
		return "timeout"
	case errors.Is(err, lock.ErrLost):
		return "lost"
	}
	return "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
}
