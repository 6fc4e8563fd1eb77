package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
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

// clean removes what a run has left under a prefix. If the server refuses a command, the error
// names the rights that are missing.
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

	// Which strategy the run used is not known yet. Without a spec Commands are those of every
	// run: what package marketstore sends here is to be among them, but for catalogue.ToFind.
	fmt.Fprintf(p.stderr, "looking for a market under %s on %s\n", prefix, server.target)
	named := backend.NewServer(backend.OriginURL, *server.target, "the server", nil)
	commands := append(catalogue.Commands(), catalogue.ToFind)
	needs := rights{target: server.target, keys: keys, trials: backend.DryRuns(commands...)}
	if err := named.Discover(ctx); err != nil {
		return interruptedOr(ctx, needs.explain(ctx, err))
	}
	return interruptedOr(ctx, needs.explain(ctx, p.removeRun(ctx, named, keys)))
}

// removeRun removes the market under a run's prefix or, of a run that had several, all of
// them.
func (p *program) removeRun(ctx context.Context, server *backend.Server, run market.Keys) error {
	markets, err := findMarkets(ctx, server, run)
	if err != nil {
		return err
	}
	for _, keys := range markets {
		if err := p.removeMarket(ctx, server, keys); err != nil {
			return err
		}
	}
	return nil
}

// findMarkets are the markets of a run: the one under its prefix or, of several, those that the
// first of them notes. That one comes last, because an interrupted removal is repeated by its
// note. If it has lost its note, theirs say whose they are.
func findMarkets(ctx context.Context, server *backend.Server, run market.Keys) (all []market.Keys, err error) {
	one := []market.Keys{run}
	// The prefix of a run with several markets leaves room for their numbers.
	first, tooLong := marketstore.Numbered(run, 1)
	alone := onOneSlot(server, run) == nil // else no market lies under the prefix itself
	if noted := alone && hasNote(ctx, server, run); noted || tooLong != nil {
		return one, nil
	}

	err = onMaster(ctx, server.Dialer(first.Prefix()), func(conn *redisconn.Conn) (err error) {
		all, err = marketstore.OtherMarkets(ctx, conn.Client, run, first)
		return err
	})
	if err == nil {
		return append(all, first), nil
	}
	if !errors.Is(err, redis.Nil) {
		return nil, err
	}

	// The first market has no such note: others may have one, on any master.
	for _, dialer := range everyMaster(server) {
		err := onMaster(ctx, dialer, func(conn *redisconn.Conn) error {
			found, err := marketstore.PartsOf(ctx, conn.Client, run)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	// A run that was killed between its first note and the one that names the run has left its first
	// market alone. If none can lie under the prefix itself (!alone), the first stands for the run:
	// removeMarket says that nothing is there.
	if alone && len(all) == 0 && !hasNote(ctx, server, first) {
		return one, nil
	}
	return append(all, first), nil
}

// hasNote reports whether there is a note of a run under a prefix, whole or not.
func hasNote(ctx context.Context, server *backend.Server, keys market.Keys) bool {
	err := onMaster(ctx, server.Dialer(keys.Prefix()), func(conn *redisconn.Conn) error {
		_, err := marketstore.ReadNote(ctx, conn.Client, keys)
		return err
	})
	return !errors.Is(err, redis.Nil) // who removes the market says what else is wrong
}

// onMaster works over a connection of its own.
func onMaster(ctx context.Context, dialer redisconn.Dialer, work func(*redisconn.Conn) error) error {
	conn, err := dialer.Dial(ctx)
	if err != nil {
		return err
	}
	return errors.Join(work(conn), conn.Close())
}

// removeMarket removes the market under keys, and says what was removed.
func (p *program) removeMarket(ctx context.Context, server *backend.Server, keys market.Keys) (err error) {
	conn, err := server.Dialer(keys.Prefix()).Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()

	note, err := marketstore.ReadNote(ctx, conn.Client, keys)
	// there is no note, or only part of one
	if errors.Is(err, redis.Nil) || errors.Is(err, marketstore.ErrNote) {
		return p.removeLeftovers(ctx, conn, keys)
	}
	if err != nil {
		return err
	}

	locks := slices.Values[[]string](nil)
	// The keys of its locks are known only if the strategy in the note is; else they stay.
	if spec, err := catalogue.Full().Parse(note.Strategy); err == nil {
		locks = p.showHowFar(countLockKeys(spec, keys, note), spec.LockKeys(keys, note))
	}
	removed, err := marketstore.Remove(ctx, conn.Client, keys, note, locks)
	return p.removed(keys, removed, err)
}

// countLockKeys is how many keys LockKeys names, without naming each of many: beyond the
// first, every item has as many as every other. The first are at least as many as accounts,
// because locks of accounts are named beside those of items. Only showHowFar uses it.
func countLockKeys(spec strategies.Spec, keys market.Keys, note market.RunNote) int64 {
	const enough = 10_000
	named := func(items market.ItemID) (n int64) {
		some := note
		some.Items = items
		for range spec.LockKeys(keys, some) {
			n++
		}
		return n
	}

	first := market.ItemID(max(note.Accounts, enough))
	if note.Items <= 2*first {
		return named(note.Items)
	}
	n := named(first)
	each := float64(named(2*first)-n) / float64(first)
	return n + int64(each*float64(note.Items-first))
}

// How soon, and then how often, a removal says how far it is.
const (
	firstWord = time.Second
	laterWord = 5 * time.Second
)

// showHowFar passes on keys that are removed one after the other, and shows how long that
// will take if it is long.
func (p *program) showHowFar(all int64, keys iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		began := time.Now()
		next := firstWord
		var n int64
		for key := range keys {
			if !yield(key) {
				return
			}
			n++

			// The time is asked for seldom: there may be a thousand million keys.
			const now = 1000
			if n%now != 0 || time.Since(began) < next {
				continue
			}
			took := time.Since(began)
			next = took + laterWord
			left := time.Duration(float64(took) / float64(n) * float64(all-n))
			p.progress("%s of %s keys that the run may have left are looked for, about %s left; "+
				"interrupt it when you like, and repeat it later", humanize.Comma(n), humanize.Comma(all), left.Round(time.Second))
		}
	}
}

// removeLeftovers removes the keys of a market without a note, if one of them or the
// prefix shows that a run made them.
func (p *program) removeLeftovers(ctx context.Context, conn *redisconn.Conn, keys market.Keys) error {
	found, ours, err := marketstore.Leftovers(ctx, conn.Client, keys)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return p.say("nothing to remove: no run has left a market under %s", keys.Prefix())
	case !ours && !drawnPrefixes.MatchString(keys.Prefix()):
		return p.say("nothing to remove: no run has left a market under %s, and nothing shows that one made the %s there "+
			"whose names are like a market's, such as %s", keys.Prefix(), english.Plural(len(found), "key", ""), found[0])
	}
	removed, err := marketstore.RemoveKeys(ctx, conn.Client, slices.Values(found))
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
