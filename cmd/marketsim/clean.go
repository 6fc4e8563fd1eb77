package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func newClean(p *program) *cobra.Command {
	var server serverFlags
	var prefix string
	cmd := &cobra.Command{
		Use:  "clean --prefix P --redis URL",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.clean(cmd.Context(), server, prefix) },
	}
	group(cmd, "Flags", func(flags *pflag.FlagSet) {
		flags.StringVar(&prefix, "prefix", "", "`prefix` of the run, as it was printed when it began")
		server.add(flags)
	})
	_ = cmd.MarkFlagRequired("prefix") // other keys may be somebody else's
	return cmd
}

func (p *program) clean(ctx context.Context, flags serverFlags, prefix string) error {
	keys, err := market.NewKeys(prefix)
	if err != nil {
		return err
	}
	server, err := flags.plan()
	if err != nil {
		return err
	}
	if server.target == nil {
		return usagef("which server? give --redis URL or REDIS_URL")
	}
	p.passwords.add(server.passwords...)
	ctx, stop := p.interruptible(ctx)
	defer stop()
	fmt.Fprintf(p.stderr, "looking for a market under %s on %s\n", prefix, server.target)
	named := backend.NewServer(backend.NameURL, *server.target, "the server", nil)
	if err := named.Discover(ctx); err != nil {
		return interruptedOr(ctx, err)
	}
	if err := onOneSlot(named, keys); err != nil {
		return err
	}
	return interruptedOr(ctx, p.removeMarket(ctx, named, keys))
}

// removeMarket removes the market under keys, and says what was removed.
func (p *program) removeMarket(ctx context.Context, server *backend.Server, keys market.Keys) (err error) {
	conn, err := server.Dialer(keys.Prefix())(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	made, err := market.ReadMade(ctx, conn.Client, keys)
	// there is no note, or only part of one
	if errors.Is(err, redis.Nil) || errors.Is(err, market.ErrNote) {
		return p.removeLeftovers(ctx, conn, keys)
	}
	if err != nil {
		return err
	}
	locks := slices.Values[[]string](nil)
	// otherwise the keys of its locks are unknown
	if spec, err := catalogue.Full().Parse(made.Strategy); err == nil {
		locks = spec.LockKeys(keys, made)
	}
	removed, err := market.Remove(ctx, conn.Client, keys, made, locks)
	return p.removed(keys, removed, err)
}

// removeLeftovers removes the keys of a market without a note, if one of them or the
// prefix shows that a run made them.
func (p *program) removeLeftovers(ctx context.Context, conn *backend.Conn, keys market.Keys) error {
	found, made, err := market.Leftovers(ctx, conn.Client, keys)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return p.say("nothing to remove: no run has left a market under %s", keys.Prefix())
	case !made && !strings.HasPrefix(keys.Prefix(), drawnPrefix):
		return p.say("nothing to remove: no run has left a market under %s, and nothing shows that one made the %s there "+
			"whose names are like a market's, such as %s", keys.Prefix(), english.Plural(len(found), "key", ""), found[0])
	}
	removed, err := market.RemoveKeys(ctx, conn.Client, slices.Values(found))
	return p.removed(keys, removed, err)
}

func (p *program) removed(keys market.Keys, removed int64, err error) error {
	n := english.Plural(int(removed), "key", "")
	if err != nil {
		return fmt.Errorf("%s removed, others left: %w", n, err)
	}
	return p.say("removed %s under %s", n, keys.Prefix())
}

// say prints a line, without terminal codes and passwords that a key's name may hold.
func (p *program) say(format string, args ...any) error {
	_, err := fmt.Fprintln(p.stdout, printable(p.passwords.hide(fmt.Sprintf(format, args...))))
	return err
}
