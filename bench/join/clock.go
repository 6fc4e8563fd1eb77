package join

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// roundTrips is how often a member asks for the server's time: the shortest answer counts.
const roundTrips = 16

// A clock says when it is a time of the server's clock by the clock of a member.
type clock struct {
	here   time.Time // by the member's clock
	server time.Time // at the same moment, by the server's
	within time.Duration
}

// readClock compares the member's clock with the server's. The answer was given between the question and its receipt: in
// the middle, or within half of that time.
//
// Source: F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3, 1989.
func readClock(ctx context.Context, rdb redis.Cmdable, now func() time.Time) (clock, error) {
	var best clock
	for range roundTrips {
		asked := now()
		server, err := rdb.Time(ctx).Result()
		way := now().Sub(asked)
		if err != nil {
			return clock{}, fmt.Errorf("ask for the server's time: %w", err)
		}
		if half := way / 2; best.server.IsZero() || half < best.within {
			best = clock{here: asked.Add(half), server: server, within: half}
		}
	}
	return best, nil
}

// local is a time of the server's clock by the member's.
func (c clock) local(server time.Time) time.Time { return c.here.Add(server.Sub(c.server)) }
