package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func newClean() *cobra.Command {
	var server serverFlags
	var prefix string
	cmd := &cobra.Command{
		Use:   "clean --prefix P --redis URL",
		Short: "Remove what a killed run left on your server",
		Long: `Remove the market that a run made under a prefix and noted there: one that was killed, or one that was kept with
--keep. Nothing else is looked at: keys under the prefix that no run of marketsim made stay. Do not clean a run that is
still going.`,
		Example: `  marketsim clean --prefix 'marketsim:{5f3a91c0}:' --redis redis://localhost:6379`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return clean(cmd, server, prefix) },
	}
	server.add(cmd)
	cmd.Flags().StringVar(&prefix, "prefix", "", "prefix of the run, as it was printed when it began")
	return cmd
}

func clean(cmd *cobra.Command, flags serverFlags, prefix string) (err error) {
	defer func() { err = conceal(err, flags.password) }()
	if prefix == "" {
		return usageError{errors.New("which run? give --prefix, as it was printed when the run began")}
	}
	keys, err := market.NewKeys(prefix)
	if err != nil {
		return err
	}
	target, err := flags.target()
	if err != nil {
		return err
	}
	if target == nil {
		return usageError{errors.New("which server? give --redis URL or REDIS_URL")}
	}
	conn, err := backend.Dial(cmd.Context(), *target)
	if err != nil {
		return interruptedOr(cmd.Context(), err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	message, err := sweep(cmd.Context(), conn.Client, keys)
	if err != nil {
		return interruptedOr(cmd.Context(), err)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), message)
	return err
}

// sweep removes the market under keys and says what there was.
func sweep(ctx context.Context, rdb *redis.Client, keys market.Keys) (message string, err error) {
	made, err := market.ReadMade(ctx, rdb, keys)
	if errors.Is(err, redis.Nil) {
		return "nothing to remove: no run has left a market under " + keys.Prefix(), nil
	}
	if err != nil {
		return "", err
	}
	removed, err := market.Remove(ctx, rdb, keys, made, lockKeys(keys, made))
	if err != nil {
		return "", fmt.Errorf("%s removed, others left: %w", count(removed, "key"), err)
	}
	return fmt.Sprintf("removed %s under %s", count(removed, "key"), keys.Prefix()), nil
}

// lockKeys are the keys that the locks of the noted strategy may have left; none for a strategy of somebody else's.
func lockKeys(keys market.Keys, made market.Made) iter.Seq[string] {
	spec, err := catalogue.Full().Parse(made.Strategy)
	if err != nil {
		return slices.Values([]string(nil))
	}
	return spec.LockKeys(keys, made)
}
