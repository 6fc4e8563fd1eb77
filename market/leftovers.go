package market

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Leftovers lists the keys under the prefix on one server that have the names and types of a market's and its locks'.
// It is for what a run left whose note is lost, or does not say all, and walks the names of the whole keyspace with
// SCAN. Made says that a note, an account or an item among them shows that a run made them.
func Leftovers(ctx context.Context, rdb redis.Cmdable, keys Keys) (found []string, made bool, err error) {
	for cursor := uint64(0); ; {
		var page []string
		page, cursor, err = rdb.Scan(ctx, cursor, keys.Prefix()+"*", 10*chunk).Result()
		if err != nil {
			return nil, false, fmt.Errorf("look for keys under %s: %w", keys.Prefix(), err)
		}
		kinds := map[string]string{} // of keys by name
		for _, key := range page {
			if kind, ours := keys.kind(key); ours {
				kinds[key] = kind
			}
		}
		for key, is := range typesOf(ctx, rdb, kinds) {
			if is.Err() != nil {
				return nil, false, fmt.Errorf("look at key %s: %w", key, is.Err())
			}
			if want := keyTypes[kinds[key]]; want != "" && want != is.Val() {
				continue
			}
			found = append(found, key)
			if !made {
				made, err = showsRun(ctx, rdb, kinds[key], key)
				if err != nil {
					return nil, false, fmt.Errorf("look at key %s: %w", key, err)
				}
			}
		}
		if cursor == 0 {
			slices.Sort(found)
			return slices.Compact(found), made, nil // SCAN may name a key twice
		}
	}
}

// typesOf asks for the types of keys, all at once.
func typesOf(ctx context.Context, rdb redis.Cmdable, keys map[string]string) map[string]*redis.StatusCmd {
	types := map[string]*redis.StatusCmd{}
	if len(keys) > 0 {
		_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // the error of each is with it
			for key := range keys {
				types[key] = p.Type(ctx, key)
			}
			return nil
		})
	}
	return types
}

// showsRun reports whether a key of a kind shows that a run made it. Locks, inventories and offers are made by more
// than this program.
func showsRun(ctx context.Context, rdb redis.Cmdable, kind, key string) (bool, error) {
	if kind != usersKey {
		return kind == runKey, nil
	}
	name, err := rdb.HGet(ctx, key, "name").Result()
	if err == redis.Nil {
		return false, nil
	}
	return name == accountName(key[strings.LastIndexByte(key, ':')+1:]), err
}
