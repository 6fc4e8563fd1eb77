package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// askTimeout bounds one question to a node of a cluster about where a master is.
const askTimeout = time.Second

// A Cluster knows which master serves each slot of a Redis Cluster. Its methods are safe for concurrent use.
type Cluster struct {
	entry Target // the node that was named; the others have its user, password and TLS

	mu     sync.Mutex
	nodes  []string      // addresses of all nodes that are known, the one that answered last first
	serves [slots]string // the master of each slot; empty: none
}

// OpenCluster asks any node for the slots. Its error wraps [ErrUnsuitable] if one has no master that can be reached.
func OpenCluster(ctx context.Context, entry Target) (*Cluster, error) {
	c := &Cluster{entry: entry, nodes: []string{entry.Addr}}
	if err := c.ask(ctx, entry.Addr); err != nil {
		return nil, err
	}
	if first := slices.Index(c.serves[:], ""); first >= 0 {
		return nil, fmt.Errorf("%w: no master of the cluster at %s serves slot %d: it is not complete; see what is "+
			"wrong with: redis-cli --cluster check %[2]s", ErrUnsuitable, entry.Addr, first)
	}
	for _, master := range c.Masters() {
		if err := With(ctx, master, func(*Conn) error { return nil }); err != nil {
			return nil, fmt.Errorf("%w: a master of the cluster at %s cannot be reached: %w", ErrUnsuitable, entry.Addr, err)
		}
	}
	return c, nil
}

// Masters are the masters that serve slots, by the first slot of each.
func (c *Cluster) Masters() []Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Target
	seen := map[string]bool{"": true}
	for _, addr := range c.serves {
		if !seen[addr] {
			seen[addr] = true
			all = append(all, c.entry.Through(addr))
		}
	}
	return all
}

// Dialer returns what connects to the master of a key's slot, with the rules and errors of [Dial]. The connection
// follows a slot that moves: a command that was refused because of that (MOVED, ASK, TRYAGAIN) was not executed, and is
// sent again to the server that has the slot. A MULTI/EXEC that was discarded is not, nor is a command after a WATCH:
// [Redirected] tells the caller. A connection that breaks is made again to the master that the slot has then.
func (c *Cluster) Dialer(key string) func(context.Context) (*Conn, error) {
	return func(ctx context.Context) (*Conn, error) { return dial(ctx, &dialer{cluster: c, slot: Slot(key)}) }
}

// Master is the master of a key's slot as far as is known. [Cluster.Refresh] makes sure.
func (c *Cluster) Master(key string) Target { return c.master(Slot(key)) }

func (c *Cluster) master(slot int) Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry.Through(c.serves[slot])
}

// moved notes what a node says: that the one at addr serves a slot from now on.
func (c *Cluster) moved(slot int, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serves[slot] = addr
}

// Refresh asks the nodes for the slots, one after the other until one answers.
func (c *Cluster) Refresh(ctx context.Context) error {
	c.mu.Lock()
	nodes := slices.Clone(c.nodes)
	c.mu.Unlock()
	var errs []error
	for _, addr := range nodes {
		err := c.ask(ctx, addr)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("no node of the cluster says who serves its slots: %w", errors.Join(errs...))
}

func (c *Cluster) ask(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return With(ctx, c.entry.Through(addr), func(conn *Conn) error {
		//lint:ignore SA1019 Redis 6.2 has no CLUSTER SHARDS
		ranges, err := conn.ClusterSlots(ctx).Result()
		if err != nil {
			return fmt.Errorf("asking %s for the cluster's slots: %w", addr, Explain(err))
		}
		c.learn(addr, ranges)
		return nil
	})
}

func (c *Cluster) learn(addr string, ranges []redis.ClusterSlot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := []string{addr}
	for _, r := range ranges {
		for i, node := range r.Nodes {
			at := nodeAddr(node.Addr, addr)
			nodes = append(nodes, at)
			for slot := max(0, r.Start); i == 0 && slot <= min(r.End, slots-1); slot++ { // the first is the master
				c.serves[slot] = at
			}
		}
	}
	nodes = append(nodes, c.nodes...) // one that is down may come back
	c.nodes = nil
	for _, node := range nodes {
		if !slices.Contains(c.nodes, node) {
			c.nodes = append(c.nodes, node)
		}
	}
}

// nodeAddr is the address of a node as the one at by has told it: without a host if that is by's own, or not known.
func nodeAddr(told, by string) string {
	host, port, err := net.SplitHostPort(told)
	if err != nil || host != "" && host != "?" {
		return told
	}
	host, _, _ = net.SplitHostPort(by)
	return net.JoinHostPort(host, port)
}

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// Slot is the hash slot of a key on Redis Cluster: that of what stands between its first braces, if something does.
//
// Source: redis.io, cluster specification, "Key distribution model": CRC-16/XMODEM modulo 16384.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			high := crc&0x8000 != 0
			crc <<= 1
			if high {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % slots
}

const (
	lookAgain = 10 * time.Millisecond // before what was refused because keys are on their way is tried once more
	moving    = 5 * time.Second       // for how long that is done
)

// Redirected reports whether a server refused a command, or discarded a transaction, because another server is
// responsible for its keys, or none is at the moment. A connection of [Cluster.Dialer] then goes to the one that is.
func Redirected(err error) bool { return redirectOf(err) != (redirect{}) }

// A redirect is what a refusal says of the server that would not refuse the command.
type redirect struct {
	code string // of the refusal; empty: it is none
	addr string // host:port of the server that is responsible, with moved and ask
}

const (
	moved    = "MOVED"    // another server is responsible from now on
	ask      = "ASK"      // another server is, for this command
	tryAgain = "TRYAGAIN" // it is this server, but not now: the keys are on their way
)

// redirectOf reads a refusal. With another code the server is no master, knows of none, or misses its replicas.
func redirectOf(err error) redirect {
	if addr, ok := redis.IsMovedError(err); ok {
		return redirect{moved, addr}
	}
	if addr, ok := redis.IsAskError(err); ok {
		return redirect{ask, addr}
	}
	for _, code := range []string{
		tryAgain, "READONLY", "UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN", "LOADING", "NOREPLICAS",
	} {
		if answered(err, code) {
			return redirect{code: code}
		}
	}
	return redirect{}
}

// firstRefused is the redirect that one of a pipeline's commands, or the pipeline itself, got.
func firstRefused(cmds []redis.Cmder, err error) redirect {
	for _, cmd := range cmds {
		if to := redirectOf(cmd.Err()); to.code != "" {
			return to
		}
	}
	return redirectOf(err)
}

// follower is the redis.Hook that sends refused commands where they belong: the first, so that others see each attempt.
type follower struct{ dialer *dialer }

func (f follower) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f follower) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Name() {
		case "watch":
			f.dialer.watching.Store(true)
			err := next(ctx, cmd)
			f.again(ctx, redirectOf(err), time.Time{})
			f.dialer.watching.Store(err == nil)
			return err
		case "unwatch":
			f.dialer.watching.Store(false)
			return next(ctx, cmd)
		}
		err := next(ctx, cmd)
		if !Redirected(err) {
			return err
		}
		cmd.SetErr(err) // which it does not have yet, as those of a pipeline do
		return f.follow(ctx, []redis.Cmder{cmd}, err, func([]redis.Cmder) error {
			cmd.SetErr(next(ctx, cmd))
			return cmd.Err()
		})
	}
}

func (f follower) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if len(cmds) > 0 && cmds[0].Name() == "multi" { // the caller, who knows what it has read, begins anew
			f.again(ctx, firstRefused(cmds, err), time.Time{})
			f.dialer.watching.Store(false)
			tellWhyDiscarded(cmds)
			return err
		}
		return f.follow(ctx, cmds, err, func(refused []redis.Cmder) error { return next(ctx, refused) })
	}
}

// follow sends those of the commands that were refused because of a redirect again, and again. It returns the error of
// the first command that has one, as a pipeline does; err is that of having sent them all.
func (f follower) follow(ctx context.Context, cmds []redis.Cmder, err error, send func([]redis.Cmder) error) error {
	giveUp := time.Now().Add(moving)
	for to := firstRefused(cmds, err); f.again(ctx, to, giveUp); to = firstRefused(cmds, err) {
		refused := slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool { return !Redirected(cmd.Err()) })
		if to.code == ask {
			f.ask(ctx, to.addr, refused)
			err = nil // each command has its own
			continue
		}
		for _, cmd := range refused {
			cmd.SetErr(nil)
		}
		err = send(refused)
	}
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return cmd.Err()
		}
	}
	return err
}

// tellWhyDiscarded gives those commands of a transaction that were discarded with it the redirect for which it was.
func tellWhyDiscarded(cmds []redis.Cmder) {
	refused := slices.IndexFunc(cmds, func(cmd redis.Cmder) bool { return Redirected(cmd.Err()) })
	if refused < 0 {
		return
	}
	for _, cmd := range cmds {
		if redis.IsExecAbortError(cmd.Err()) {
			cmd.SetErr(cmds[refused].Err())
		}
	}
}

// again reports whether a refused command is to be sent again, and sees to it that it goes to the server responsible.
func (f follower) again(ctx context.Context, to redirect, giveUp time.Time) bool {
	d := f.dialer
	switch to.code {
	case moved:
		d.cluster.moved(d.slot, nodeAddr(to.addr, d.tried().Addr))
		d.leave()
	case ask, tryAgain:
	default:
		return false
	}
	if d.watching.Load() || !time.Now().Before(giveUp) || ctx.Err() != nil {
		return false
	}
	if to.code == tryAgain {
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// ask sends commands to the server at addr, which is about to take over their slot. If it is out of reach, they stay
// refused.
func (f follower) ask(ctx context.Context, addr string, cmds []redis.Cmder) {
	target := f.dialer.tried()
	target.Addr = nodeAddr(addr, target.Addr)
	conn, err := Dial(CountInto(ctx, f.dialer.meter.Stats), target)
	if err != nil {
		time.Sleep(lookAgain)
		return
	}
	defer conn.Close()
	for _, cmd := range cmds {
		if conn.Do(ctx, "asking").Err() == nil {
			cmd.SetErr(nil)
			_ = conn.Process(ctx, cmd) // cmd has its error
		}
	}
}

// leave closes the connections to the server that was tried, so that go-redis makes another, to the slot's master. It
// notices before it writes a command to one that is closed.
func (d *dialer) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.open {
		_ = conn.Conn.Close() // its owner closes it, too
	}
	clear(d.open)
}

// reach connects to the server, or to the slot's master. If that fails, the nodes say whether another took its place.
func (d *dialer) reach(ctx context.Context) (net.Conn, error) {
	if d.cluster == nil {
		return d.connect(ctx, d.tried())
	}
	conn, err := d.connect(ctx, d.turn())
	if err == nil || d.cluster.Refresh(ctx) != nil || d.cluster.master(d.slot).Addr == d.tried().Addr {
		return conn, err
	}
	return d.connect(ctx, d.turn())
}

// turn makes the slot's master, as far as is known, the target.
func (d *dialer) turn() Target {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = d.cluster.master(d.slot)
	return d.target
}

// tried is the server to which the last connection was made.
func (d *dialer) tried() Target {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.target
}
