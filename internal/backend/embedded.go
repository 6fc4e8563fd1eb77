package backend

import (
	"bufio"
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/redisconn"
)

// Embedded starts miniredis inside this process: a last resort that needs nothing
// installed. It shows that a strategy is right, not how fast it is: miniredis is not Redis,
// and shares the CPU with the load. The zero value is ready to use. [Memory] is one for the
// search of schedules, [Scripts] executes its commands, and [Lag] makes a replica of it.
type Embedded struct{}

// Name returns [OriginEmbedded].
func (Embedded) Name() Origin { return OriginEmbedded }

// Start starts miniredis on a free port of 127.0.0.1, with a random password. Time-outs
// of keys follow the clock, as Redis's do; by default miniredis's never pass, and a lock
// that nobody released would be held for ever.
func (Embedded) Start(context.Context) (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	password := rand.Text()
	m.RequireAuth(password)
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("starting miniredis: %w", err)
	}
	m.Server().SetPreHook(touching(m.Server()))

	target := redisconn.Target{Network: "tcp", Addr: m.Addr(), Password: password}
	return NewServer(OriginEmbedded, target, "embedded miniredis", func() error {
		m.Close()
		return nil
	}), nil
}

// touchingZREM has a hook that makes ZREM abort the transactions that watch its key, as
// Redis's does. In miniredis 2.40 the removal of one member of several leaves the key's
// version as it is; the hook puts a ZADD before it.
type touchingZREM struct {
	server  *server.Server
	clients sync.Map // of *server.Peer
}

func touching(s *server.Server) server.Hook { return (&touchingZREM{server: s}).hook }

// touchingRemoval removes members as ZREM does, by way of a ZADD. It must not call ZREM:
// the hook would see it again.
//
//go:embed touching_removal.lua
var touchingRemoval string

// hook is called before each command. True means that it has answered the command, which
// miniredis then does not execute.
func (z *touchingZREM) hook(c *server.Peer, cmd string, args ...string) bool {
	client := z.isClient(c) // at every command: a client is known by its first
	if cmd != "ZREM" || len(args) < 2 {
		return false
	}

	key, members := args[0], args[1:]
	if client { // one command in place of one, also in a MULTI
		z.server.Dispatch(c, append([]string{"EVAL", touchingRemoval, strconv.Itoa(1), key}, members...))
		return true
	}

	for _, member := range members { // in a script, where nobody can come in between
		quiet := server.NewPeer(bufio.NewWriter(io.Discard))
		quiet.Ctx = c.Ctx
		z.server.Dispatch(quiet, []string{"ZADD", key, "XX", "0", member})
	}
	return false
}

// isClient reports whether c is a client, and not a script. A client's first command
// finds no context yet; a script's commands come from peers that were made with one.
func (z *touchingZREM) isClient(c *server.Peer) bool {
	_, known := z.clients.Load(c)
	if known || c.Ctx != nil {
		return known
	}
	z.clients.Store(c, nil)
	c.OnDisconnect(func() { z.clients.Delete(c) })
	return true
}
