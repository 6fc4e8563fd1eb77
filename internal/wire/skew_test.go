package wire_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/wire"
)

// skewed is a client whose clock is ahead, and one beside it.
func (b bench) skewed(ahead time.Duration) (client, other *redisconn.Conn) {
	b.Helper()
	b.proxy.SetClock(wire.NewClock(ahead))
	return b.dial(), b.direct
}

// wantText checks a value, which is text or a number.
func (b bench) wantText(what string, got any, err error, want string) {
	b.Helper()
	if fmt.Sprint(got) != want || err != nil {
		b.Errorf("%s: %v, %v; want %s", what, got, err, want)
	}
}

// What a client whose clock is ahead writes is seen so by others, and by itself as before: by
// commands of their own, in a pipeline, in a transaction, and by a script.
func TestClientsClockInWhatItSends(t *testing.T) {
	onEach(t, func(b bench) {
		client, other := b.skewed(time.Hour)
		ctx := b.Context()
		ms := time.Now().UnixMilli()
		here := strconv.FormatInt(ms, 10)
		there := strconv.FormatInt(ms+time.Hour.Milliseconds(), 10)
		keep := redis.NewScript(`redis.call('SET', KEYS[1], ARGV[1]); ` +
			`return {ARGV[1], tonumber(ARGV[1]) - ` +
			`tonumber(ARGV[2]), redis.call('GET', KEYS[1])}`)
		key := func(n int) string {
			return fmt.Sprint(b.key, ":", n)
		}

		client.Set(ctx, key(0), here, 0)
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, key(1), here, 0)
			return p.Set(ctx, key(2), here, 0).Err()
		})
		b.wantText("a pipeline", "", err, "")

		_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, key(3), here, 0)
			return p.Set(ctx, key(4), here, 0).Err()
		})
		b.wantText("a transaction", "", err, "")

		said, err := keep.Run(ctx, client, []string{key(5)}, here, ms-1500).Result()
		b.wantText("a script", said, err, "["+here+" 1500 "+here+"]")

		for n := range 6 {
			got, err := other.Get(ctx, key(n)).Result()
			b.wantText("what others read", got, err, there)
			got, err = client.Get(ctx, key(n)).Result()
			b.wantText("what it reads", got, err, here)
		}
	})
}

// A client whose clock is ahead sees the server's clock, and what others have sent, as behind.
func TestClientsClockInWhatItGets(t *testing.T) {
	onEach(t, func(b bench) {
		client, other := b.skewed(time.Hour)
		ctx := b.Context()
		now := time.Now()
		here := strconv.FormatFloat(float64(now.UnixMilli())/1000, 'f', -1, 64)
		there := strconv.FormatFloat(float64(now.Add(-time.Hour).UnixMilli())/1000, 'f', -1, 64)

		at, err := client.Time(ctx).Result()
		if behind := now.Sub(at); err != nil || behind < 59*time.Minute || behind > 61*time.Minute {
			b.Errorf("the server's clock: %s, %v", at, err)
		}

		other.ZAdd(ctx, b.key, redis.Z{Score: float64(now.UnixMilli()), Member: here})
		members, err := client.ZRange(ctx, b.key, 0, -1).Result()
		b.wantText("a member", members, err, "["+there+"]")
		score, err := client.ZScore(ctx, b.key, here).Result() // of which no member is called so by its clock
		if err == nil {
			b.Errorf("the score of what others call otherwise: %v", score)
		}
		score, err = client.ZScore(ctx, b.key, there).Result()
		b.wantText("a score", int64(score), err, fmt.Sprint(now.Add(-time.Hour).UnixMilli()))

		until := now.Add(time.Minute).Truncate(time.Second)
		other.Set(ctx, b.key+":expires", "x", 0)
		other.ExpireAt(ctx, b.key+":expires", until)
		seconds, err := client.Do(ctx, "EXPIRETIME", b.key+":expires").Int64()
		if want := until.Add(-time.Hour).Unix(); err == nil && seconds != want && seconds != want-1 { // miniredis rounds
			b.Errorf("it expires at %d, want %d", seconds, want)
		}
		left, err := client.TTL(ctx, b.key+":expires").Result()
		if err != nil || left < 50*time.Second || left > time.Minute {
			b.Errorf("a duration became %s, %v", left, err)
		}
	})
}

// A message, and what a blocking command waits for, are seen so, too.
func TestClientsClockInWhatItWaitsFor(t *testing.T) {
	onEach(t, func(b bench) {
		client, other := b.skewed(-time.Hour)
		ctx := b.Context()
		us := time.Now().UnixMicro()
		here := strconv.FormatInt(us, 10)
		there := strconv.FormatInt(us+time.Hour.Microseconds(), 10)

		messages := client.Subscribe(ctx, b.key)
		defer messages.Close()
		_, err := messages.Receive(ctx)
		b.wantText("a subscription", "", err, "")
		other.Publish(ctx, b.key, here)
		message, err := messages.ReceiveMessage(ctx)
		if err != nil || message.Payload != there {
			b.Errorf("a message: %v, %v; want %s", message, err, there)
		}

		popped := make(chan []string, 1)
		go func() {
			popped <- client.BLPop(ctx, time.Minute, b.key+":list").Val()
		}()
		other.RPush(ctx, b.key+":list", here)
		if got := within(b, "what it waits for", popped); len(got) != 2 || got[1] != there {
			b.Errorf("what it waited for: %q, want %s", got, there)
		}
	})
}

// What waits at a gate is as the server gets it.
func TestGateShowsWhatTheServerGets(t *testing.T) {
	onEach(t, func(b bench) {
		ctx := b.Context()
		clock := wire.NewClock(time.Hour)
		b.proxy.SetClock(clock)

		now := time.Now()
		began := time.Now()
		h, done := b.gated(func(c *redisconn.Conn) error {
			_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, b.key, now.Unix(), 0)
				return p.Set(ctx, b.key, now.UnixMilli(), 0).Err()
			})
			return err
		})

		b.wantText("the first", h.Commands[0][2], nil, fmt.Sprint(now.Add(time.Hour).Unix()))
		b.wantText("the second", h.Commands[1][2], nil, fmt.Sprint(now.Add(time.Hour).UnixMilli()))
		at, is := clock.Time(h.Commands[1][2])
		if !is || !at.Equal(now.Truncate(time.Millisecond)) || h.Came.Before(began) {
			b.Errorf("it was sent with the time %s, at %s, and came at %s", at, now, h.Came)
		}

		b.proxy.Gate(nil)
		h.Open()
		b.wantText("the client", "", within(b, "its client", done), "")
		if !clock.Passed() || clock.Inside() != "" {
			b.Errorf("times have passed: %t; inside: %q", clock.Passed(), clock.Inside())
		}
	})
}
