package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func newClean(p *program) *cobra.Command {
	var server serverFlags
	var prefix string
	cmd := &cobra.Command{
		Use:   "clean --prefix P --redis URL",
		Short: "Remove what a killed run left on your server",
		Long: `Remove the market that a run made under a prefix and noted there: one that was killed, or one that was kept
with --keep. Where a run had several markets, the prefix of the first removes all. Keys under the prefix that no run of
marketsim made stay. If the server has lost the note, by eviction, by FLUSHALL or in a failover, what is left is found
by its names, and other markets by their own notes. Do not clean a run that is still going.`,
		Example: `  marketsim clean --prefix 'marketsim:{5f3a91c0}:' --redis redis://localhost:6379`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return clean(cmd.Context(), p, server, prefix) },
	}
	server.add(cmd)
	cmd.Flags().StringVar(&prefix, "prefix", "", "prefix of the run, as it was printed when it began")
	return cmd
}

func clean(ctx context.Context, p *program, flags serverFlags, prefix string) (err error) {
	if prefix == "" {
		return usageError{errors.New("which run? give --prefix, as it was printed when the run began: without it nothing is looked " +
			"for, because most keys may be somebody else's")}
	}
	keys, err := market.NewKeys(prefix)
	if err != nil {
		return err
	}
	server, err := flags.config()
	if err != nil {
		return err
	}
	if server.target == nil {
		return usageError{errors.New("which server? give --redis URL or REDIS_URL")}
	}
	defer func() { err = conceal(err, server.password()) }()
	fmt.Fprintf(p.stderr, "looking for a market under %s on %s\n", prefix, server.target)
	named := backend.NewServer(backend.NameURL, *server.target, "the server", nil)
	if err := named.Discover(ctx); err != nil {
		return interruptedOr(ctx, err)
	}
	message, err := removeMarkets(ctx, named, keys)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	_, err = fmt.Fprintln(p.stdout, message)
	return err
}

// removeMarkets removes the market under keys, and before it the others of its run, and says what there was.
func removeMarkets(ctx context.Context, server *backend.Server, keys market.Keys) (message string, err error) {
	all, err := others(ctx, server, keys)
	if err != nil {
		return "", err
	}
	var messages []string
	for _, one := range append(all, keys) { // the first one last, whose note says where the others are
		message, err := removeMarket(ctx, server, one)
		if err != nil {
			return "", err
		}
		messages = append(messages, message)
	}
	return strings.Join(messages, "\n"), nil
}

// others are the other markets of the run whose first market is under keys: those that its note names, or, if the server has
// lost it, those that are found.
func others(ctx context.Context, server *backend.Server, keys market.Keys) (all []market.Keys, err error) {
	conn, err := server.Dialer(keys.Prefix())(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	made, err := market.ReadMade(ctx, conn.Client, keys)
	if lost(err) {
		return findOthers(ctx, server, keys)
	}
	return made.Others, err
}

// lost reports whether an error of market.ReadMade says that there is no note, or only a part of it.
func lost(err error) bool { return errors.Is(err, redis.Nil) || errors.Is(err, market.ErrNote) }

// removeMarket removes the market under keys, and says what there was.
func removeMarket(ctx context.Context, server *backend.Server, keys market.Keys) (message string, err error) {
	conn, err := server.Dialer(keys.Prefix())(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	made, err := market.ReadMade(ctx, conn.Client, keys)
	var removed int64
	switch {
	case lost(err):
		found, shown, err := market.Leftovers(ctx, conn.Client, keys)
		if message := nothingToRemove(keys, found, shown); err != nil || message != "" {
			return message, err
		}
		removed, err = market.RemoveKeys(ctx, conn.Client, slices.Values(found))
		return removedKeys(keys, removed, err)
	case err != nil:
		return "", err
	}
	removed, err = market.Remove(ctx, conn.Client, keys, made, lockKeys(keys, made))
	return removedKeys(keys, removed, err)
}

// nothingToRemove says why nothing is removed of what looks like a market's keys, and has no note: there are none, or nothing
// shows that a run made them, neither one of them nor a prefix such as runs draw. Else it is empty.
func nothingToRemove(keys market.Keys, found []string, made bool) string {
	switch {
	case len(found) == 0:
		return "nothing to remove: no run has left a market under " + keys.Prefix()
	case !made && !strings.HasPrefix(keys.Prefix(), drawnPrefix) && !drawn(keys):
		return fmt.Sprintf("nothing to remove: no run has left a market under %s, and nothing shows that one made "+
			"the %s there whose names are like a market's, such as %s", keys.Prefix(),
			english.Plural(len(found), "key", ""), found[0])
	}
	return ""
}

// removedKeys says how many keys were removed under a prefix.
func removedKeys(keys market.Keys, removed int64, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("%s removed, others left: %w", english.Plural(int(removed), "key", ""), err)
	}
	return fmt.Sprintf("removed %s under %s", english.Plural(int(removed), "key", ""), keys.Prefix()), nil
}

// lockKeys are the keys that the locks of the noted strategy may have left; none if marketsim does not know it.
func lockKeys(keys market.Keys, made market.Made) iter.Seq[string] {
	spec, err := catalogue.Full().Parse(made.Strategy)
	if err != nil {
		return slices.Values([]string(nil))
	}
	return spec.LockKeys(keys, made)
}
