package backend_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestEmbedded(t *testing.T) {
	s := testkit.Embedded(t)
	if got := s.Describe(); !strings.Contains(got, "embedded miniredis") ||
		!strings.Contains(got, "not Redis's") {
		t.Errorf("described as %q", got)
	}
	info, err := s.Info(t.Context())
	if err != nil || info.Product != "miniredis" {
		t.Errorf("Info says %+v, %v", info, err)
	}
	if err := testkit.Dial(t, s).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestKeysExpire(t *testing.T) {
	conn := testkit.Dial(t, testkit.Embedded(t))
	ctx := t.Context()
	testkit.Succeeds(t, conn.Set(ctx, "k", "v", 20*time.Millisecond).Err())
	for deadline := time.Now().Add(time.Minute); ; {
		if err := conn.Get(ctx, "k").Err(); errors.Is(err, redis.Nil) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the key does not expire")
		}
	}
}

// TestZREMTouchesWatchers removes one listing of two while another client watches them.
func TestZREMTouchesWatchers(t *testing.T) {
	type remove func(ctx context.Context, rdb *redis.Client) error
	ways := map[string]remove{
		"plain": func(ctx context.Context, rdb *redis.Client) error {
			return rdb.ZRem(ctx, "z", "a").Err()
		},
		"in MULTI": func(ctx context.Context, rdb *redis.Client) error {
			_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "x", 1, 0)
				p.ZRem(ctx, "z", "a")
				p.Set(ctx, "y", 1, 0)
				return nil
			})
			return err
		},
		"in a script": func(ctx context.Context, rdb *redis.Client) error {
			return rdb.Eval(ctx, "return redis.call('ZREM', KEYS[1], ARGV[1])", []string{"z"}, "a").Err()
		},
	}

	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for name, remove := range ways {
			t.Run(name, func(t *testing.T) {
				ctx := t.Context()
				watcher, other := testkit.Dial(t, s), testkit.Dial(t, s)
				other.ZAdd(ctx, "z", redis.Z{Score: 3, Member: "a"}, redis.Z{Score: 5, Member: "b"})

				err := watcher.Watch(ctx, func(tx *redis.Tx) error {
					testkit.Succeeds(t, remove(ctx, other.Client))
					_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
						return p.Set(ctx, "w", 1, 0).Err()
					})
					return err
				}, "z")
				if !errors.Is(err, redis.TxFailedErr) {
					t.Errorf("EXEC answers %v", err)
				}

				if left := other.ZRange(ctx, "z", 0, -1).Val(); len(left) != 1 || left[0] != "b" {
					t.Errorf("left: %v", left)
				}
			})
		}
	})
}

// TestZREMAnswersTheCount checks that the changed command still answers as Redis's.
func TestZREMAnswersTheCount(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		ctx, rdb := t.Context(), testkit.Dial(t, s)
		rdb.ZAdd(ctx, "z", redis.Z{Score: 3, Member: "a"}, redis.Z{Score: 5, Member: "b"})
		for _, step := range []struct {
			members []any
			want    int64
		}{{[]any{"c"}, 0}, {[]any{"a", "c"}, 1}, {[]any{"a"}, 0}, {[]any{"b"}, 1}, {[]any{"b"}, 0}} {
			if got, err := rdb.ZRem(ctx, "z", step.members...).Result(); got != step.want || err != nil {
				t.Errorf("ZREM %v answers %d, %v; want %d", step.members, got, err, step.want)
			}
		}
	})
}
