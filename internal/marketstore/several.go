package marketstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// Numbered are the keys of one of several markets of a run: under the run's prefix and the
// number in braces, which choose a slot of a Redis Cluster for the whole market.
func Numbered(run market.Keys, number int) (market.Keys, error) {
	return market.NewKeys(run.Prefix() + "{" + strconv.Itoa(number) + "}:")
}

// A SeveralNote is what a market of a run with several notes besides, so that the run's
// prefix alone removes them all.
type SeveralNote struct {
	Run    market.Keys
	Others []market.Keys // in the note of market 1: all others
}

// Fields of the note. Prefixes hold no spaces.
const (
	runField    = "part_of"
	othersField = "markets"
)

// NoteSeveral adds to the note of a market that Seed has opened. Other markets are opened
// after the first one has noted them, so that none is ever unknown.
func NoteSeveral(ctx context.Context, rdb redis.Cmdable, keys market.Keys, n SeveralNote) error {
	fields := []any{runField, n.Run.Prefix()}
	if len(n.Others) > 0 {
		var prefixes []string
		for _, other := range n.Others {
			prefixes = append(prefixes, other.Prefix())
		}
		fields = append(fields, othersField, strings.Join(prefixes, " "))
	}

	if err := rdb.HSet(ctx, keys.Run(), fields...).Err(); err != nil {
		return fmt.Errorf("note the markets of %s: %w", n.Run.Prefix(), err)
	}
	return nil
}

// OtherMarkets are those that the first market of a run has noted. The error is ErrForeign,
// wrapped, where the note names what is no market of the run, and redis.Nil where there is no
// note of a run with several markets.
func OtherMarkets(ctx context.Context, rdb redis.Cmdable, run, first market.Keys) (others []market.Keys, err error) {
	fields, err := rdb.HGetAll(ctx, first.Run()).Result()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	case err == nil && fields[runField] != run.Prefix():
		err = redis.Nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", first.Run(), err)
	}

	for prefix := range strings.FieldsSeq(fields[othersField]) {
		other, err := market.NewKeys(prefix)
		if err != nil || !strings.HasPrefix(prefix, run.Prefix()+"{") {
			return nil, fmt.Errorf("read %s: %w: it names the market %q", first.Run(), ErrForeign, prefix)
		}
		others = append(others, other)
	}
	return others, nil
}

// PartsOf are the markets on one server whose notes say that they belong to a run with
// several, by SCAN: for a run whose first market has lost its note. Each is there once, in no
// order; so is the first, if its note says so.
func PartsOf(ctx context.Context, rdb redis.Cmdable, run market.Keys) (found []market.Keys, err error) {
	suffix := strings.TrimPrefix(run.Run(), run.Prefix())
	it := rdb.Scan(ctx, 0, run.Prefix()+"{*}:"+suffix, 10*chunk).Iterator() // a prefix is no pattern
	for it.Next(ctx) {
		keys, wrong := market.NewKeys(strings.TrimSuffix(it.Val(), suffix))
		if wrong != nil { // no prefix: it is too long, or has a sign that none may have
			continue
		}

		of, err := rdb.HGet(ctx, keys.Run(), runField).Result()
		switch {
		case errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE"): // no note of ours
		case err != nil:
			return nil, atKey(keys.Run(), err)
		case of == run.Prefix() && !slices.Contains(found, keys): // SCAN may name a key twice
			found = append(found, keys)
		}
	}

	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("look for markets of %s: %w", run.Prefix(), err)
	}
	return found, nil
}
