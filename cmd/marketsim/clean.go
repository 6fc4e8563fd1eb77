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

	"github.com/marketsim/marketsim/bench/join"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/spread"
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
marketsim made stay. If the server has lost the note, by eviction or by FLUSHALL, what is left is found by its names. Do
not clean a run that is still going.`,
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
		return usageError{errors.New("which run? give --prefix, as it was printed when the run began")}
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

// removeMarkets removes the market under keys, and before it those that its note names, and says what there was.
func removeMarkets(ctx context.Context, server *backend.Server, keys market.Keys) (message string, err error) {
	conn, err := dialNote(ctx, server, keys)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	made, err := market.ReadMade(ctx, conn.Client, keys)
	if err != nil && !errors.Is(err, redis.Nil) && !errors.Is(err, market.ErrNote) {
		return "", err
	}
	var messages []string
	for _, other := range made.Others {
		message, err := removeOther(ctx, server, other)
		if err != nil {
			return "", err
		}
		messages = append(messages, message)
	}
	message, err = removeMarket(ctx, conn.Client, server.Cluster(), keys)
	return strings.Join(append(messages, message), "\n"), err
}

// removeOther removes a market that another's note names.
func removeOther(ctx context.Context, server *backend.Server, keys market.Keys) (message string, err error) {
	conn, err := dialNote(ctx, server, keys)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return removeMarket(ctx, conn.Client, server.Cluster(), keys)
}

// dialNote connects to the server that has the note of a market.
func dialNote(ctx context.Context, server *backend.Server, keys market.Keys) (*backend.Conn, error) {
	note := keys.Prefix()
	if spread.CheckKeys(keys) == nil { // braces put all keys on one slot
		note = keys.Run()
	}
	return server.Dialer(note)(ctx)
}

// removeMarket removes the market under keys and says what there was.
func removeMarket(ctx context.Context, rdb *redis.Client, cluster *backend.Cluster, keys market.Keys,
) (message string, err error) {
	spreads := cluster != nil && spread.CheckKeys(keys) == nil
	var met []string // of a run that several machines made, which is in one slot
	if !spreads {
		if met, err = join.ReadKeys(ctx, rdb, keys); err != nil {
			return "", err
		}
	}
	made, err := market.ReadMade(ctx, rdb, keys)
	var removed int64
	switch {
	case errors.Is(err, redis.Nil) || errors.Is(err, market.ErrNote):
		removed, message, err = removeWithoutNote(ctx, rdb, keys)
	case err == nil && spreads:
		removed, err = removeSpread(ctx, cluster, keys, made)
	case err == nil:
		removed, err = market.Remove(ctx, rdb, keys, made, lockKeys(keys, made))
		if err == nil && met != nil {
			var more int64
			more, err = market.RemoveKeys(ctx, rdb, slices.Values(met))
			removed += more
		}
	default:
		return "", err
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("%s removed, others left: %w", english.Plural(int(removed), "key", ""), err)
	case message != "":
		return message, nil
	}
	return fmt.Sprintf("removed %s under %s", english.Plural(int(removed), "key", ""), keys.Prefix()), nil
}

// removeWithoutNote removes what looks like a market's keys, if something shows that a run made them: one of them, or a
// prefix such as runs draw. The server has lost the run's note, by eviction or by FLUSHALL. The message is empty if
// there was something to remove.
func removeWithoutNote(ctx context.Context, rdb *redis.Client, keys market.Keys) (int64, string, error) {
	found, made, err := market.Leftovers(ctx, rdb, keys)
	switch {
	case err != nil:
		return 0, "", err
	case len(found) == 0:
		return 0, "nothing to remove: no run has left a market under " + keys.Prefix(), nil
	case !made && !strings.HasPrefix(keys.Prefix(), drawnPrefix):
		return 0, fmt.Sprintf("nothing to remove: no run has left a market under %s, and nothing shows that one made "+
			"the %s there whose names are like a market's, such as %s", keys.Prefix(),
			english.Plural(len(found), "key", ""), found[0]), nil
	}
	removed, err := market.RemoveKeys(ctx, rdb, slices.Values(found))
	return removed, "", err
}

// lockKeys are the keys that the locks of the noted strategy may have left; none if marketsim does not know it.
func lockKeys(keys market.Keys, made market.Made) iter.Seq[string] {
	spec, err := catalogue.Full().Parse(made.Strategy)
	if err != nil {
		return slices.Values([]string(nil))
	}
	return spec.LockKeys(keys, made)
}
