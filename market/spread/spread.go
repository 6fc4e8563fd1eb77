// Package spread is a market whose keys share no slot of a Redis Cluster: every item and every account has a slot of its
// own, as data in a real cluster has. No transaction, and no script, reaches two of them.
//
// # Keys
//
// The prefix has no braces, for example "marketsim:5f3a91c0:".
//
//	item:{i<id>}    hash  owner, price (absent when not listed), version, and at most one operation
//	acct:{u<id>}    hash  funds, and for each client incarnation its last sequence number with the outcome
//	lock:{<name>}   any   what locks need
//	market:         zset  what buyers browse: member <item>.<seller>, score = price; a hint, which may be out of date
//	run             hash  what the run made here, so that its removal needs no SCAN
//
// The item alone says where it is. Nobody browses inventories, so there is no hint of them.
//
// # Operations
//
// A purchase is an [Operation], named after the incarnation of its client and a sequence number, and made by steps of which
// each is one script on one slot. A client begins the next one when the last has ended.
//
//	BEGIN (item)    if the version is as seen and there is no operation: store this one, not yet paid
//	PAY (buyer)     the number is recorded: answer what it says; a later one is: no; too few coins: record no;
//	                else debit, and record yes: from here on the purchase is made
//	DECIDE (item)   if it holds this operation, not yet paid: the owner is the buyer, the price is gone, version + 1, paid;
//	                or, if the answer is no, the operation is removed
//	CREDIT (seller) if the number, or a later one, is recorded: nothing; else credit, and record it
//	END (item)      if it holds this operation, paid: remove it
//
// Whoever meets another's operation finishes it by PAY to END. A client that lost the reply to BEGIN or PAY records no at
// the buyer, unless something is recorded already, and goes on by what is.
//
// # Why nothing is lost, made or sold twice
//
// Commands may come late, or twice, and helpers may sleep between any two steps.
//
//   - An operation is stored once: whatever the answer to PAY, BEGIN finds another version when it was yes; and when it was
//     no, one that comes late stores what the next helper takes away again, because the buyer's record says no.
//   - The answer to PAY is that of the first who asked, who also debits, in one write. Later it can only turn from yes into no,
//     when the client has recorded a later number. It does that after DECIDE and CREDIT of this one, and then the item no
//     longer holds it unpaid: DECIDE does nothing.
//   - DECIDE changes an item only while it holds this very operation unpaid, so once. A sale is decided if the buyer has
//     paid, and only then.
//   - CREDIT adds once: the client goes on to a later number only when this one is recorded at the seller, so a helper that
//     comes late finds this number or a later one.
//   - Only who has the answer yes, or has seen the operation paid at the item, credits.
//
// A client that dies leaves an operation that anybody can finish, and that [EndAll] finishes. A client that cannot finish one,
// because a server stays away, goes on as another incarnation: its old numbers stay as they are.
//
// # What one key holds
//
// The number of items that were made is in run alone, and nothing else says it. A failover that loses it gives ids away again, of
// items that live on with other masters: made anew, they would belong to somebody else, at a version that they had before. So
// [Mint] takes a [market.Minter], which uses no id twice, and which all who mint in a market have to share. Minting from
// several processes needs an answer of its own.
//
// # What is not promised
//
// It is not promised that what a server acknowledged survives it: a failover that loses a debit, or the record of a
// credit, makes coins or loses them. Nor does anybody see a purchase in one piece who reads several keys. A record for each
// incarnation that ever traded with an account stays with it.
//
// Sources: the intents are the transaction records of D. Peng and F. Dabek, "Large-scale Incremental Processing Using
// Distributed Transactions and Notifications", OSDI 2010, with one row as the point of no return; helping is that of
// T. L. Harris, K. Fraser and I. A. Pratt, "A Practical Multi-word Compare-and-Swap Operation", DISC 2002.
package spread

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// CheckKeys returns market.ErrPrefix, wrapped, for a prefix with braces: they would put every key on one slot, or on one
// other than its own.
func CheckKeys(keys market.Keys) error {
	if strings.ContainsAny(keys.Prefix(), "{}") {
		return fmt.Errorf("%w %q: keys that share no slot have a prefix without braces, for example \"mytest:\"",
			market.ErrPrefix, keys.Prefix())
	}
	return nil
}

// Slots are the connections of one worker to the masters of a cluster, as backend.Nodes has them. It is not safe for
// concurrent use, except for Dial.
type Slots interface {
	// For is the connection to the master of a key's slot. All keys with the same master share one.
	For(ctx context.Context, key string) (*redis.Client, error)
	// Again learns from the error of a command who is master now, and reports whether it was a redirect.
	Again(ctx context.Context, err error) bool
	// Dial opens one more connection to the master of a key's slot.
	Dial(ctx context.Context, key string) (*redis.Client, error)
}

const (
	// chunk is how many keys go into one batch.
	chunk = 1000
	// againAfter is how long a worker waits before it tries once more what nobody has answered.
	againAfter = 10 * time.Millisecond
	// Patience is how long the functions of this package, and by default a purchase, wait for a cluster that is not ready:
	// longer than it takes with default settings to replace a master.
	Patience = 30 * time.Second
)

// Again reports whether a command failed in a way that need not last: nobody answered, or another server is responsible
// for the key, or none is at the moment. If nobody answered, it may have been executed: see Unsent.
func Again(err error) bool {
	var answer redis.Error
	if errors.As(err, &answer) {
		return backend.Redirected(err)
	}
	return err != nil && !errors.Is(err, errDamaged)
}

// Unsent reports whether a command that failed was certainly not executed, and can go well later.
func Unsent(err error) bool {
	var op *net.OpError
	return backend.Redirected(err) || errors.Is(err, backend.ErrUnreachable) || errors.As(err, &op) && op.Op == "dial"
}

// Persist does something until it does not fail, or fails in a way of which again says no, or ctx has ended, or for longer
// than patience. It does it at least once, and what it does does not end with ctx: to stop half-way is worse.
func Persist(ctx context.Context, slots Slots, patience time.Duration, again func(error) bool,
	do func(context.Context) error,
) error {
	whole := context.WithoutCancel(ctx)
	err := do(whole)
	if err == nil {
		return nil
	}
	for giveUp := time.Now().Add(patience); again(err) && time.Now().Before(giveUp); err = do(whole) {
		if !slots.Again(ctx, err) {
			select {
			case <-ctx.Done():
			case <-time.After(againAfter):
			}
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return err
}

// batch collects commands on many keys, and sends those of one master in one pipeline.
type batch struct {
	slots Slots
	pipes map[*redis.Client]redis.Pipeliner
}

// inBatches lets queue put the commands of each of so many keys into a batch, a thousand keys at a time, sends it, and lets
// done see the replies. It is repeated where a cluster is not ready: queue and what it queues must bear that.
func inBatches(ctx context.Context, slots Slots, keys int, queue func(b *batch, i int) error, done func(first, end int)) error {
	for first := 0; first < keys; first += chunk {
		end := min(first+chunk, keys)
		err := Persist(ctx, slots, Patience, Again, func(whole context.Context) error {
			b := &batch{slots, map[*redis.Client]redis.Pipeliner{}}
			for i := first; i < end; i++ {
				if err := queue(b, i); err != nil {
					return err
				}
			}
			return b.send(whole)
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if done != nil {
			done(first, end)
		}
	}
	return nil
}

// on is the pipeline for a key's commands.
func (b *batch) on(ctx context.Context, key string) (redis.Pipeliner, error) {
	rdb, err := b.slots.For(ctx, key)
	if err != nil {
		return nil, err
	}
	if b.pipes[rdb] == nil {
		b.pipes[rdb] = rdb.Pipeline()
	}
	return b.pipes[rdb], nil
}

// send sends the pipelines. What is not there is no error.
func (b *batch) send(ctx context.Context) error {
	for _, p := range b.pipes {
		cmds, err := p.Exec(ctx)
		if first := firstError(cmds); first != nil {
			return first
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// firstError is that of the first command that failed. What is not there is no error.
func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}
