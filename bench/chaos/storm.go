package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

const (
	// patience is how long the pause of a client waits for one who comes to its step.
	patience = time.Second
	// healTimeout bounds healing, of which starting the server again takes the longest.
	healTimeout = 30 * time.Second
)

// A Storm carries out the schedule of one row. It is a bench.Storm.
type Storm struct {
	arena  *Arena
	rounds []Round
	about  Traders
	gate   turnstile

	mu     sync.Mutex
	struck map[string]int64
}

// Traders is what a storm has to know of those whom it strikes.
type Traders struct {
	Locked bool        // they take locks, and so come to all steps
	Locks  LockServer  // where, if not on the market's server; nil: nothing there is struck
	Tell   func(Fault) // is told each fault as it strikes; may be nil
}

// NewStorm returns the storm of a schedule.
func (a *Arena) NewStorm(rounds []Round, about Traders) *Storm {
	if about.Tell == nil {
		about.Tell = func(Fault) {}
	}
	return &Storm{arena: a, rounds: rounds, about: about, struck: map[string]int64{}}
}

// Rounds is how many rounds there are.
func (s *Storm) Rounds() int { return len(s.rounds) }

// Steps sees the steps of one worker.
func (s *Storm) Steps(seller bool) step.Observer { return s.gate.observer(seller) }

// Struck counts the faults that have struck, by kind.
func (s *Storm) Struck() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.struck)
}

// Strike lets the faults of a round strike, one after the other, and heals each. When it returns, early if ctx ends,
// nothing is broken. An error is that of something that could not be broken, or not be healed.
func (s *Storm) Strike(ctx context.Context, round int) error {
	for _, f := range s.rounds[round].Faults {
		sleep(ctx, f.Wait)
		if ctx.Err() != nil {
			return nil
		}
		if err := s.strike(ctx, f); err != nil {
			return fmt.Errorf("fault %s: %w", f, err)
		}
	}
	sleep(ctx, s.rounds[round].Rest)
	return nil
}

func (s *Storm) strike(ctx context.Context, f Fault) error {
	switch {
	case f.Kind == ServerPause && !pausable, f.Kind == LockKill && s.about.Locks == nil:
		return nil
	case f.Kind == ClientPause:
		s.pauseClient(ctx, f)
		return nil
	}
	s.about.Tell(f)
	heal, err := s.arena.strike(f, s.about.Locks)
	if err == nil {
		s.count(f)
		sleep(ctx, f.Length)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	return errors.Join(err, heal(bounded))
}

// pauseClient holds a worker. A strategy that takes no locks has fewer steps: there, the step next to it is meant.
func (s *Storm) pauseClient(ctx context.Context, f Fault) {
	if !s.about.Locked {
		switch f.Step {
		case step.Acquired:
			f.Step = step.Read
		case step.BeforeRelease:
			f.Step = step.Written
		}
	}
	s.about.Tell(f)
	if s.gate.strike(ctx, newHold(f), patience) {
		s.count(f)
	}
}

func (s *Storm) count(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.struck[string(f.Kind)]++
}

// Settle returns when nothing that workers have sent can still arrive. They are at rest.
func (s *Storm) Settle(ctx context.Context) error { return s.arena.Settle(ctx) }
