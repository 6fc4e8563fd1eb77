package chaos

import (
	"context"
	"errors"
)

// nothing is a heal where nothing was broken.
func nothing(context.Context) error { return nil }

// moveSlot moves the market's zset to another master and stops half-way; heal moves the rest of the slot.
func (s *Setup) moveSlot(ctx context.Context) (heal func(context.Context) error, err error) {
	other, err := s.cluster.OtherMaster(ctx, s.market)
	if err != nil {
		return nothing, err
	}
	move, err := s.cluster.BeginMove(ctx, s.market, other)
	if err != nil {
		return nothing, err
	}
	heal = func(ctx context.Context) error {
		if err := move.Keys(ctx); err != nil {
			return err
		}
		return move.End(ctx)
	}
	return heal, move.Keys(ctx, s.market)
}

// loseMaster keeps everything from the replica of the market's master; heal kills the master, waits until the replica has
// taken its place, and starts the killed one again, as a replica.
func (s *Setup) loseMaster(ctx context.Context) (heal func(context.Context) error, err error) {
	master, err := s.cluster.Master(ctx, s.market)
	if err != nil {
		return nothing, err
	}
	replica, err := s.cluster.ReplicaOf(ctx, master)
	if err != nil {
		return nothing, err
	}
	return func(ctx context.Context) error {
		if err := errors.Join(s.cluster.Kill(master), s.cluster.Resume(replica)); err != nil {
			return err
		}
		if err := s.cluster.AwaitMaster(ctx, s.market, replica); err != nil {
			return err
		}
		if err := s.cluster.Restart(ctx, master); err != nil {
			return err
		}
		return s.cluster.AwaitReady(ctx)
	}, s.cluster.CutReplication(ctx, master, replica)
}
