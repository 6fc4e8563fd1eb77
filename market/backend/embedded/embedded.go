// Package embedded runs a market on miniredis, inside this process: a last resort that needs nothing installed.
// It shows that a strategy is right, not how fast it is; miniredis is not Redis, and shares the CPU with the load.
package embedded

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/market/backend"
)

// Starter starts miniredis. The zero value is ready to use.
type Starter struct{}

// Name returns [backend.KindEmbedded].
func (Starter) Name() backend.Kind { return backend.KindEmbedded }

// Start starts miniredis on a free port of 127.0.0.1. Time-outs of keys follow the clock, as Redis's do; by
// default miniredis's never pass, and a lock that nobody released would be held for ever.
func (Starter) Start(context.Context) (*backend.Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("starting miniredis: %w", err)
	}
	zrem := touchingZREM{server: m.Server(), clients: map[*server.Peer]bool{}}
	m.Server().SetPreHook(zrem.hook)
	target := backend.Target{Network: "tcp", Addr: m.Addr()}
	return backend.NewServer(backend.KindEmbedded, target, "embedded miniredis", func() error {
		m.Close()
		return nil
	}), nil
}
