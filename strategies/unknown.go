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
var unknownParam = param.OneOf("after-unknown",
	"what becomes of a lock after a write of unknown outcome: left to its lease, where it has one (lapse), left in any "+
		"case, released, or released after CLIENT KILL of the connection on which the write may be late",
	unknownLapse, unknownLeave, unknownRelease, unknownKill)

func checkUnknown(s Spec) error {
	chosen := s.params.Text(unknownParam)
	write := s.params.Text(writeParam)
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

// leavesLocks reports whether the locks are left after a write of unknown outcome.
func (k *locked) leavesLocks() bool {
	switch k.Params.Text(unknownParam) {
	case unknownRelease:
		return false
	case unknownLapse:
		return !k.compared && k.Locker.Promises().SurvivesCrash
	}
	return true
}

// A settlement is what was found out about a write of unknown outcome.
type settlement struct {
	known   bool
	outcome error // nil: it was applied
}

// findOut comes after a write and before the release. If the outcome of the write is
// unknown, it finds that out by after-unknown=kill, or leaves the locks as after-unknown
// says. What it found out is true if the locks were held until then, which the caller
// learns when it releases them. It is called whatever became of the write: it also gives back the
// connection of after-unknown=kill, over which locks may be released.
func (k *locked) findOut(ctx context.Context, op *operation, err error) settlement {
	// First: locks may be released over the same client, which has one connection.
	killing, kills := k.access.(*killing)
	if kills {
		killing.endConnection()
	}
	if err == nil || market.Refused(err) {
		return settlement{}
	}

	var found settlement
	if kills {
		found = killing.findOut(ctx, op)
	}
	if !found.known && k.leavesLocks() {
		k.leave()
	}
	// The release of a lock without an owner does not tell whether it was held.
	found.known = found.known && k.Locker.Promises().OwnerRelease
	return found
}

// leave leaves the held locks to their leases.
func (k *locked) leave() {
	for _, h := range k.held {
		h.Leave()
		h.Releasing = time.Now()
		h.Released = time.Now()
		if k.Holds != nil {
			k.Holds(h.Holding)
		}
	}
	k.held = k.held[:0]
}

// killing is access over one connection, which the server names in reply to the
// reads, so that it can be killed.
type killing struct {
	byLocker
	Env
	conn *redis.Conn // from the reads on; nil: the client has it back
	info string      // what the server says of it
}

// connectionName finds the number and the address of a connection in what CLIENT INFO says.
var connectionName = regexp.MustCompile(`\bid=(\d+) .*?\baddr=(\S+)`)

// read takes the client's one connection. locked.findOut gives it back, also after an error.
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
	return exec(ctx, c.conn.TxPipelined, false, func(p redis.Pipeliner) {
		op.write(ctx, p)
	})
}

// endConnection gives the client its connection back.
func (c *killing) endConnection() {
	if c.conn != nil {
		_ = c.conn.Close() // if it is broken, the next command makes another
		c.conn = nil
	}
}

const settleTimeout = 2 * time.Second // for all that findOut asks

// findOut kills the connection of the write, and reads what became of it.
func (c *killing) findOut(ctx context.Context, op *operation) settlement {
	name := connectionName.FindStringSubmatch(c.info)
	if name == nil {
		return settlement{}
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	rdb, err := c.NewClient(ctx)
	if err != nil {
		return settlement{}
	}
	defer rdb.Close()

	// The address, too: a server that has started anew may have given the number to somebody
	// else. That none was killed is no error: then the connection has ended before. What was
	// written is read only afterwards: before, a late write could still change the answer.
	if err := rdb.Do(ctx, "client", "kill", "id", name[1], "addr", name[2]).Err(); err != nil {
		return settlement{}
	}

	// While the locks are held nobody else lists or buys the item: after a listing that was
	// applied it is listed, and after a purchase that was applied it is not.
	err = rdb.ZScore(ctx, c.Keys.Market(), op.member()).Err()
	listed := err == nil
	switch {
	case !listed && !errors.Is(err, redis.Nil):
		return settlement{}
	case listed == op.lists:
		return settlement{known: true}
	}
	return settlement{known: true, outcome: market.ErrWithdrawn}
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
