package strategies

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/param"
)

const (
	unknownLapse   = "lapse"
	unknownLeave   = "leave"
	unknownRelease = "release"
	unknownKill    = "kill"
)

// unknownParam chooses what a holder does with its locks after a write of unknown
// outcome: one of which bytes have left, and whose reply has not come. It is executed
// whenever it arrives, whoever has the lock by then.
//
//   - lapse: the lock is left to its lease, so that a write that is late by less than the
//     rest of the lease arrives while the lock keeps others out. A lock that never
//     expires is given back: left, it would keep everybody out.
//   - leave: the lock is left, even one that never expires.
//   - release: the lock is given back, as in the "finally" of published code; the next
//     holder has read what it changes.
//   - kill: from a new connection, the server is told to close the old one (CLIENT KILL
//     ID), after which a late write on it is not executed. Then the holder reads what
//     has become of the order, and gives the lock back. If the release finds it still
//     held, which one without an owner cannot tell, the outcome is known. Without an
//     answer the lock is left.
//
// What breaks it. lapse and leave: a write that is later than the lease ends, so a lease
// has to be longer than the wait for a reply. kill: a proxy that sends the commands of
// several clients over one connection of its own, and a server that has failed over. Both
// make the write late again, and neither is noticed. A write that the market itself
// compares with the lock (fencing=on and token, write=fused) needs none of this. Source:
// M. Kleppmann, "How to do distributed locking", 2016, on delayed requests;
// redis.io/commands/client-kill.
var unknownParam = param.Choice("after-unknown",
	"what becomes of a lock after a write of unknown outcome: left to its lease, where it has one (lapse), left in any "+
		"case, released, or released after CLIENT KILL of the connection on which the write may be late",
	unknownLapse, unknownLeave, unknownRelease, unknownKill)

func checkUnknown(s Spec) error {
	chosen, write := s.params.Text(unknownParam), s.params.Text(writeParam)
	switch {
	case chosen == unknownLapse:
		return nil
	case compared(s.params):
		return fmt.Errorf("after-unknown=%s is for writes that nobody compares with the lock: with fencing=%s and write=%s "+
			"a late one is refused, and the lock is released", chosen, s.params.Text(fencingParam), write)
	case chosen == unknownKill && (write != writeParam.Default || s.params.Text(fencingParam) != fencingNone):
		return fmt.Errorf("after-unknown=%s is for writes that are one MULTI/EXEC", unknownKill)
	}
	return nil
}

// compared reports whether the market compares a write with the lock under
// which it was made.
func compared(v param.Values) bool { return registers(v) || v.Text(writeParam) == writeFused }

// leaves reports whether the locks are left after a write of unknown outcome.
func (k *locked) leaves() bool {
	switch k.Params.Text(unknownParam) {
	case unknownRelease:
		return false
	case unknownLapse:
		return !k.compared && k.Locker.Promises().SurvivesCrash
	}
	return true
}

// settle comes before locks are released whose holder's write had an error. It returns
// whether it is known in the end what became of a write of unknown outcome, if the locks
// were held until then: applied where the error is nil.
func (k *locked) settle(ctx context.Context, op *operation, err error) (known bool, became error) {
	over, kills := k.access.(*killing)
	if kills {
		over.end()
	}
	if err == nil || market.Refused(err) {
		return false, nil
	}
	if kills {
		known, became = over.settle(ctx, op)
	}
	if !known && k.leaves() {
		k.leave()
	}
	return known && k.Locker.Promises().OwnerRelease, became // or the release does not tell
}

func (k *locked) leave() {
	for _, h := range k.held {
		h.Leave()
		h.Releasing, h.Released = time.Now(), time.Now()
		if k.Holds != nil {
			k.Holds(h.Holding)
		}
	}
	k.held = k.held[:0]
}

// killing is access over one connection, which the server names in reply to the
// reads, so that it can be killed.
type killing struct {
	*locked
	conn *redis.Conn // from the reads on; nil: the client has it back
	info string      // what the server says of it
}

var named = regexp.MustCompile(`\bid=(\d+) .*?\baddr=(\S+)`)

func (c *killing) read(ctx context.Context, op *operation) error {
	c.conn = c.Redis.Conn()
	var info *redis.Cmd
	// The error is that of the first failed command: they are judged one by one.
	_, _ = c.conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		info = p.Do(ctx, "client", "info")
		op.read(ctx, p)
		return nil
	})
	var err error
	c.info, err = info.Text()
	if err != nil {
		return fmt.Errorf("ask for the connection's name: %w", err)
	}
	return op.judge()
}

func (c *killing) write(ctx context.Context, op *operation) error {
	return exec(ctx, c.conn.TxPipelined, false, func(p redis.Pipeliner) { op.write(ctx, p) })
}

// end gives the client its connection back.
func (c *killing) end() {
	if c.conn != nil {
		_ = c.conn.Close() // if it is broken, the next command makes another
		c.conn = nil
	}
}

const settleTimeout = 2 * time.Second

// settle kills the connection of the write, and reads what became of it.
func (c *killing) settle(ctx context.Context, op *operation) (known bool, became error) {
	name := named.FindStringSubmatch(c.info)
	if name == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	rdb, err := c.NewClient(ctx)
	if err != nil {
		return false, nil
	}
	defer rdb.Close()
	// The address, too: a server that has started anew may have given the
	// number to somebody else.
	if err := rdb.Do(ctx, "client", "kill", "id", name[1], "addr", name[2]).Err(); err != nil {
		return false, nil
	}
	err = rdb.ZScore(ctx, c.Keys.Market(), op.member()).Err()
	listed := err == nil
	if !listed && !errors.Is(err, redis.Nil) {
		return false, nil
	}
	if listed != op.lists {
		became = market.ErrWithdrawn
	}
	return true, became
}

// checkKill returns process.ErrUnavailable, wrapped, if the server does not
// name connections.
func checkKill(ctx context.Context, rdb *redis.Client) error {
	err := rdb.Do(ctx, "client", "info").Err()
	if refused, ok := errors.AsType[redis.Error](err); ok {
		return fmt.Errorf("after-unknown=%s is %w on this server, which answers %q to CLIENT INFO: it needs Redis 6.2",
			unknownKill, process.ErrUnavailable, refused.Error())
	}
	return redisconn.Explain(err)
}

// replicasParam is how many replicas must have an operation before it counts as made: the
// client asks by WAIT over the same connection, before it releases. If too few have it in
// time the outcome is unknown: a failover may lose it.
//
// What breaks it: another replica than those that have it may be promoted. Source:
// redis.io/docs/latest/commands/wait.
var replicasParam = param.Count("replicas", 0, 0, "how many replicas must have an operation before it counts as made")

const replicasTimeout = time.Second

// replicated waits for replicas after each operation, as replicasParam says.
func replicated(env Env, do doing) doing {
	n := env.Params.Count(replicasParam)
	if n == 0 {
		return do
	}
	return func(ctx context.Context, op *operation) (market.Receipt, error) {
		r, err := do(ctx, op)
		if err == nil {
			err = awaitReplicas(ctx, env.Redis, n)
		}
		return r, err
	}
}

// awaitReplicas returns an error, which leaves the outcome unknown, if too few
// replicas have what was written.
func awaitReplicas(ctx context.Context, rdb *redis.Client, n int) error {
	got, err := rdb.Wait(ctx, n, replicasTimeout).Result()
	if err != nil {
		return fmt.Errorf("wait for %d replicas: %w", n, err)
	}
	if int(got) < n {
		return fmt.Errorf("%d of %d replicas have it after %s", got, n, replicasTimeout)
	}
	return nil
}

// checkReplicas returns process.ErrUnavailable, wrapped, if too few replicas answer.
func checkReplicas(ctx context.Context, rdb *redis.Client, n int) error {
	err := awaitReplicas(ctx, rdb, n)
	if err == nil {
		return nil
	}
	return fmt.Errorf("replicas=%d is %w: %w; take a server with as many replicas, by --redis", n,
		process.ErrUnavailable, err)
}
