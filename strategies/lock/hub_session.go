package lock

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// session is the life of one connection.
func (h *hub) session(rdb *redis.Client) {
	ctx, cancel := context.WithCancel(h.ctx)
	subscription := rdb.Subscribe(ctx)
	var writer sync.WaitGroup
	writer.Go(func() { h.follow(ctx, subscription) })
	h.listen(ctx, subscription)
	cancel()
	writer.Wait()
}

// follow subscribes to the channels where somebody waits, and to no other. It closes the subscription when it ends,
// which ends a read as well.
func (h *hub) follow(ctx context.Context, subscription *redis.PubSub) {
	defer subscription.Close()
	subscribed := map[string]bool{}
	for {
		wanted, unwanted := h.difference(subscribed)
		if len(wanted) > 0 && subscription.Subscribe(ctx, wanted...) != nil {
			return
		}
		if len(unwanted) > 0 && subscription.Unsubscribe(ctx, unwanted...) != nil {
			return
		}
		select {
		case <-h.changed:
		case <-ctx.Done():
			return
		}
	}
}

// difference brings subscribed up to date and returns what that takes.
func (h *hub) difference(subscribed map[string]bool) (wanted, unwanted []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel, seats := range h.seats {
		if !subscribed[channel] && slices.ContainsFunc(seats, func(s *seat) bool { return s.listens }) {
			wanted = append(wanted, channel)
			subscribed[channel] = true
		}
	}
	for channel := range subscribed {
		if len(h.seats[channel]) == 0 {
			unwanted = append(unwanted, channel)
			delete(subscribed, channel)
		}
	}
	return wanted, unwanted
}

// listen hands out messages until the connection breaks. A connection that was silent for long is broken unless it
// answers a PING.
func (h *hub) listen(ctx context.Context, subscription *redis.PubSub) {
	for asked := false; ; {
		message, err := subscription.ReceiveTimeout(ctx, hubSilence)
		var network net.Error
		switch {
		case err == nil:
			asked = false
			h.tell(message)
		case ctx.Err() != nil || asked || !errors.As(err, &network) || !network.Timeout():
			return
		default:
			if subscription.Ping(ctx) != nil {
				return
			}
			asked = true
		}
	}
}
