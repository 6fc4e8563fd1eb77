package sentinel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

// lateness is how long after a cut the replica is still a candidate: Sentinel passes over one whose link to the master was
// down for more than ten times downAfter when the master fell silent. It leaves room for seconds that are rounded up.
const lateness = 10*downAfter - 2*time.Second

// ErrLate is returned by KillMaster, wrapped, when replication was cut so long ago that nobody would take over.
var ErrLate = errors.New("replication was cut too long ago")

// CutReplication makes the replica stop for good: it has what was written before this was called, and gets nothing that is
// written after this has returned. The master is to be killed within three seconds, because Sentinel does not promote a
// replica whose link was down for longer.
func (t *Trio) CutReplication(ctx context.Context) error {
	if err := t.caughtUp(ctx); err != nil {
		return fmt.Errorf("cutting replication: %w", err)
	}
	conn, err := t.master.Dial(ctx)
	if err != nil {
		return fmt.Errorf("cutting replication: %w", err)
	}
	defer conn.Close()
	t.cut = time.Now()
	// First it may not log in again, and then its connection goes.
	if err := conn.Do(ctx, "ACL", "SETUSER", replicaUser, "off").Err(); err != nil {
		return fmt.Errorf("cutting replication: keeping the replica out: %w", err)
	}
	if err := conn.ClientKillByFilter(ctx, "TYPE", "replica").Err(); err != nil {
		return fmt.Errorf("cutting replication: closing the replica's connection: %w", err)
	}
	return await(ctx, func() error { return t.parted(ctx) })
}

// parted says why a write could still arrive.
func (t *Trio) parted(ctx context.Context) error {
	master, err := replication(ctx, t.master)
	if err != nil {
		return err
	}
	replica, err := replication(ctx, t.replica)
	if err != nil {
		return err
	}
	if master["connected_slaves"] != "0" || replica["master_link_status"] != "down" {
		return fmt.Errorf("the master has %s replicas and the replica's link is %s", master["connected_slaves"],
			replica["master_link_status"])
	}
	return nil
}

// caughtUp returns when the replica has what the master had when this was called.
func (t *Trio) caughtUp(ctx context.Context) error {
	fields, err := replication(ctx, t.master)
	if err != nil {
		return err
	}
	want, err := strconv.ParseInt(fields["master_repl_offset"], 10, 64)
	if err != nil {
		return fmt.Errorf("reading the master's replication offset: %w", err)
	}
	return await(ctx, func() error {
		fields, err := replication(ctx, t.replica)
		if err != nil {
			return err
		}
		offset, _ := strconv.ParseInt(fields["slave_repl_offset"], 10, 64) // absent while it synchronizes
		if fields["master_link_status"] != "up" || offset < want {
			return fmt.Errorf("the replica's link is %s and it has %d bytes of %d", fields["master_link_status"], offset, want)
		}
		return nil
	})
}

// KillMaster ends the first master as a crash would. It returns ErrLate, wrapped, when nobody would take over any more.
func (t *Trio) KillMaster() error {
	if !t.cut.IsZero() && time.Since(t.cut) > lateness {
		return fmt.Errorf("killing the master: %w: %v, and Sentinel promotes the replica only within %v; "+
			"kill it sooner after the cut", ErrLate, time.Since(t.cut).Round(time.Millisecond), lateness)
	}
	return t.master.Kill()
}

// AwaitFailover returns the former replica when it is a master and a sentinel tells clients so. Without a bound in ctx it
// may wait for ever.
func (t *Trio) AwaitFailover(ctx context.Context) (backend.Target, error) {
	err := await(ctx, func() error {
		fields, err := replication(ctx, t.replica)
		if err != nil {
			return err
		}
		target, err := t.Master(ctx)
		if err != nil {
			return err
		}
		if fields["role"] != "master" || target.Addr != t.replica.Target.Addr {
			return fmt.Errorf("the replica's role is %s and the sentinels name %s", fields["role"], target.Addr)
		}
		return nil
	})
	if err != nil {
		return backend.Target{}, fmt.Errorf("waiting for the failover: %w", err)
	}
	return t.replica.Target, nil
}
