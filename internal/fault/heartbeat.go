package fault

import (
	"context"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
)

const (
	// beatEvery is how often a server is asked whether it answers: a small part of what
	// spoils a scenario, and seldom enough for many servers on one machine.
	beatEvery = 20 * time.Millisecond
	// A server that is down refuses within refusal. An error that takes longer is none of
	// its answers: the question is still open, and is put again.
	refusal = 100 * time.Millisecond
)

// A heartbeat measures for how long a server let a simple question wait, while a scenario
// is played. One that stands still lets leases run out whose holders are not to blame. A
// server that is down does not stand still.
type heartbeat struct {
	server  *process.Process
	cancel  context.CancelFunc
	over    chan struct{} // closed when it asks no more
	longest time.Duration // that a question has waited; beat's own until over is closed
}

// beat asks until the context ends. A question that is open then has waited until then. It runs
// in a goroutine of its own, in which nothing may call fail: ask returns its errors.
func (h *heartbeat) beat(ctx context.Context, ask func(context.Context) error) {
	defer close(h.over)
	var asked time.Time // zero: no question is open
	for ctx.Err() == nil {
		began := time.Now()
		if asked.IsZero() {
			asked = began
		}

		err := ask(ctx)
		h.longest = max(h.longest, time.Since(asked))
		if err == nil || time.Since(began) < refusal {
			asked = time.Time{}
		}

		select {
		case <-ctx.Done():
		case <-time.After(beatEvery):
		}
	}
}

// end ends the heartbeat, and returns for how long the server stood still at most. It may be
// called again, as endHeartbeats does after pauses.
func (h *heartbeat) end() time.Duration {
	h.cancel()
	<-h.over
	return h.longest
}

// listen listens to the heartbeat of a server until the run ends, or the scenario stops
// the server.
func (s *setup) listen(server *process.Process, ask func(context.Context) error) {
	ctx, cancel := context.WithCancel(s.ctx)
	h := &heartbeat{server: server, cancel: cancel, over: make(chan struct{})}
	s.heartbeats = append(s.heartbeats, h)
	go h.beat(ctx, ask)
}

// listenTo listens to private Redis servers. One without a process of its own is part of
// this program.
func (s *setup) listenTo(all ...*backend.Server) {
	for _, server := range all {
		if server.Process != nil {
			s.listen(server.Process, pinging(server))
		}
	}
}

// listenToMembers listens to servers of ZooKeeper or etcd. Nil is none.
func (s *setup) listenToMembers(ensemble *servers.Ensemble) {
	if ensemble == nil {
		return
	}
	for i, member := range ensemble.Members {
		s.listen(member.Process, func(ctx context.Context) error {
			return ensemble.Ask(ctx, i)
		})
	}
}

// pinging asks a server by PING, over a connection of its own that is made at the first
// question and ends with the context of that.
func pinging(server *backend.Server) func(context.Context) error {
	var conn *redisconn.Conn
	return func(ctx context.Context) (err error) {
		if conn == nil {
			conn, err = server.Dial(ctx)
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn.Ping(ctx).Err()
	}
}

// pauses stops servers, as the scenario has it: from now on they may stand still. Their
// heartbeats end first, or the pause would count as a fault of the machine.
func (s *setup) pauses(all ...*backend.Server) {
	for _, server := range all {
		for _, h := range s.heartbeats {
			if h.server == server.Process {
				s.stood = max(s.stood, h.end())
			}
		}
		check(server.Pause())
	}
}

// endHeartbeats notes for how long a server stood still that the scenario had not stopped.
func (s *setup) endHeartbeats() {
	for _, h := range s.heartbeats {
		h.cancel() // all at once
	}
	for _, h := range s.heartbeats {
		s.stood = max(s.stood, h.end())
	}
}
