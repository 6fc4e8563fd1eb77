package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

// A Command is one that not every server has on which marketsim runs.
type Command struct {
	Name  string // with the option in question: "SET IFEQ"
	Since string // the versions that have it: "Redis 8.4, Valkey 8.1"
	// probe is the command with all its arguments. It does nothing if there is no such key.
	probe func(key string) []any
}

// Check tries the command on a key that does not exist, and leaves none. It returns backend.ErrUnavailable, wrapped, if
// the server lacks the command, and any other error explained. COMMAND INFO is not asked: it does not tell the options of
// SET, it needs a permission of its own, and miniredis answers what Redis 5 had.
func (c Command) Check(ctx context.Context, rdb *redis.Client, key string) error {
	err := rdb.Do(ctx, c.probe(key)...).Err()
	var refused redis.Error
	switch {
	case err == nil || errors.Is(err, redis.Nil):
		return nil
	case errors.As(err, &refused) && lacks(refused.Error()):
		answer, _, _ := strings.Cut(refused.Error(), ", with args")
		return fmt.Errorf("%s is %w on this server, which answers %q: it needs %s", c.Name, backend.ErrUnavailable, answer,
			c.Since)
	}
	return fmt.Errorf("try %s: %w", c.Name, backend.Explain(err))
}

// lacks reports whether a server refuses a command, or an option of it, that it does not know.
func lacks(answer string) bool {
	return strings.Contains(answer, "unknown command") || strings.Contains(answer, "syntax error")
}

// Commands that locks send if they are told to.
var (
	setIfEq = Command{"SET IFEQ", "Redis 8.4 or Valkey 8.1", func(key string) []any {
		return []any{"set", key, "x", "ifeq", "x", "px", 1}
	}}
	delEx = Command{"DELEX", "Redis 8.4", func(key string) []any {
		return []any{"delex", key, "ifeq", "x"}
	}}
	delIfEq = Command{"DELIFEQ", "Valkey 9.0", func(key string) []any {
		return []any{"delifeq", key, "x"}
	}}
	mSetEx = Command{"MSETEX", "Redis 8.4 or Valkey 9.1", func(key string) []any {
		return []any{"msetex", 1, key, "x", "xx", "px", 1}
	}}
	hSetEx = Command{"HSETEX", "Redis 8.0 or Valkey 9.0", func(key string) []any {
		return []any{"hsetex", key, "fxx", "px", 1, "fields", 1, "x", "x"}
	}}
)
