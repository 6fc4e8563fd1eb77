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

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/fault"
	"github.com/marketsim/marketsim/verify/judge"
	"github.com/marketsim/marketsim/verify/markettest"
)

func newAdapter(p *program) *cobra.Command {
	return &cobra.Command{
		Use:  "adapter SPEC",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := newAdapted(args[0])
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), cmd.InOrStdin(), p.stdout)
		},
	}
}

// adapted is a lock and a purchase behind lines of text. Each is opened when it is first asked for.
type adapted struct {
	spec      strategies.Spec
	dial      strategies.Dialer
	env       strategies.Env
	locker    lock.Locker
	lease     *lock.Lease
	purchaser market.Purchaser
}

// newAdapted is what a spec names, as the environment of a judged program says.
func newAdapted(name string) (*adapted, error) {
	schemes, err := fault.Schemes(catalogue.Full(), name)
	if err == nil && len(schemes) != 1 {
		err = fmt.Errorf("%q names %d schemes, and one is needed", name, len(schemes))
	}
	if err != nil {
		return nil, usageError{err}
	}
	ms := func(variable string, otherwise int) time.Duration {
		n, _ := strconv.Atoi(os.Getenv(variable)) // judge has written it
		return time.Duration(cmp.Or(n, otherwise)) * time.Millisecond
	}
	ttl := ms("LOCK_TTL_MS", 500)
	spec := markettest.Shortened(catalogue.Full(), schemes[0].Spec, map[param.Role]time.Duration{
		param.Lease: ttl, param.Poll: ms("LOCK_RETRY_MS", 2), param.Timeout: 4 * ttl,
	})
	var keys market.Keys
	if prefix := os.Getenv("KEY_PREFIX"); prefix != "" {
		keys, err = market.NewKeys(prefix)
		if err != nil {
			return nil, usageError{err}
		}
	}
	server := backend.Target{Network: "tcp", Addr: os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT")}
	dial := func(ctx context.Context) (*backend.Conn, error) { return backend.Dial(ctx, server) }
	return &adapted{spec: spec, dial: dial, env: strategies.Env{Keys: keys, Process: new(lock.Process)}}, nil
}

// opens opens the purchaser, or else the lock, on a connection of its own. Both live as long as this process.
func (a *adapted) opens(ctx context.Context, buys bool) error {
	if buys && a.purchaser == nil {
		c, err := strategies.Connect(ctx, a.spec, a.dial, a.env)
		if err != nil {
			return err
		}
		a.purchaser = c.Purchaser
	}
	if !buys && a.locker == nil {
		conn, err := a.dial(ctx)
		if err != nil {
			return err
		}
		env := a.env
		env.Redis = conn.Client
		env.Dial = func(ctx context.Context) (*redis.Client, error) { return backend.Client(a.dial(ctx)) }
		a.locker, err = a.spec.OpenLock(env)
		return err
	}
	return nil
}

// serve answers each line.
func (a *adapted) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if _, err := fmt.Fprintln(out, a.answer(ctx, lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (a *adapted) answer(ctx context.Context, line string) string {
	words := strings.Fields(line)
	_, locks := a.spec.Lock()
	err := fmt.Errorf("this is not understood: %q", line)
	switch {
	case len(words) == 5 && words[0] == "buy":
		return judge.Answer(a.buy(ctx, strings.Join(words[1:], " ")))
	case len(words) == 2 && words[0] == "acquire" && locks:
		err = a.acquire(ctx, words[1])
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

func (a *adapted) acquire(ctx context.Context, name string) error {
	err := a.opens(ctx, false)
	if err == nil {
		a.lease, err = a.locker.Acquire(ctx, name)
	}
	return err
}

func (a *adapted) buy(ctx context.Context, order string) error {
	var o market.Order
	_, err := fmt.Sscan(order, &o.Item, &o.Buyer, &o.Seller, &o.Price)
	if err == nil {
		err = a.opens(ctx, true)
	}
	if err == nil {
		_, err = a.purchaser.Purchase(ctx, o)
	}
	return err
}
