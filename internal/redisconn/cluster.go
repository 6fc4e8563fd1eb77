package redisconn

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

// A Cluster knows which master serves each slot of a Redis Cluster. Its methods
// are safe for concurrent use.
type Cluster struct {
	entry Target // the node that was named; the others have its user, password and TLS

	mu     sync.Mutex
	nodes  []string      // addresses of all nodes that are known, the one that answered last first
	serves [slots]string // the master of each slot; empty: none, which is not so after OpenCluster
}

// OpenCluster asks the node that is named, which may be any of the cluster, for the slots. Its
// error wraps [ErrUnsuitable] if one has no master that can be reached.
func OpenCluster(ctx context.Context, entry Target) (*Cluster, error) {
	if entry.Network == "unix" {
		return nil, fmt.Errorf("%w: a node of a cluster is named by its socket %s: name it by host and port, "+
			"as its other nodes are", ErrUnsuitable, entry.Addr)
	}

	c := &Cluster{entry: entry, nodes: []string{entry.Addr}}
	if err := c.ask(ctx, entry.Addr); err != nil {
		return nil, err
	}

	if first := slices.Index(c.serves[:], ""); first >= 0 {
		return nil, fmt.Errorf("%w: no master of the cluster at %s serves slot %d: "+
			"it is not complete; see what is "+
			"wrong with: redis-cli --cluster check %[2]s", ErrUnsuitable, entry.Addr, first)
	}

	for _, master := range c.Masters() {
		onlyConnect := func(*Conn) error { return nil }
		if err := With(ctx, master, onlyConnect); err != nil {
			return nil, fmt.Errorf("%w: a master of the cluster at %s cannot be reached: %w",
				ErrUnsuitable, entry.Addr, err)
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

// Dialer connects to the master of a key's slot. A connection that breaks is made again to
// the master that the slot has then. It does not follow a slot that moves while its master
// goes on, unless [Dialer.WithFollowing] asks for that: commands are refused then, see
// [Redirected].
func (c *Cluster) Dialer(key string) Dialer { return Dialer{cluster: c, slot: Slot(key)} }

// Master is the master of a key's slot as far as is known. [Cluster.Refresh] makes sure.
func (c *Cluster) Master(key string) Target { return c.master(Slot(key)) }

func (c *Cluster) master(slot int) Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry.Through(c.serves[slot])
}

// Refresh asks the nodes for the slots, one after the other until one answers.
func (c *Cluster) Refresh(ctx context.Context) error {
	c.mu.Lock()
	nodes := slices.Clone(c.nodes)
	c.mu.Unlock() // ask takes it to note the answer

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

// learn notes what the node at addr has answered: who serves each slot, and all nodes, its own
// address first. A slot that nobody serves now keeps its former master.
func (c *Cluster) learn(addr string, ranges []redis.ClusterSlot) {
	c.mu.Lock()
	defer c.mu.Unlock()

	nodes := []string{addr}
	for _, r := range ranges {
		for i, node := range r.Nodes {
			at := nodeAddr(node.Addr, addr)
			nodes = append(nodes, at)
			// the first is the master
			for slot := max(0, r.Start); i == 0 && slot <= min(r.End, slots-1); slot++ {
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

// move notes what a node says: that the one at addr serves a slot from now on.
func (c *Cluster) move(slot int, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serves[slot] = addr
}

// nodeAddr is the address of a node that another one, at by, has reported: without a host
// if that is by's own, or not known.
func nodeAddr(reported, by string) string {
	host, port, err := net.SplitHostPort(reported)
	if err != nil || host != "" && host != "?" {
		return reported
	}
	host, _, _ = net.SplitHostPort(by)
	return net.JoinHostPort(host, port)
}

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// Slot is the hash slot of a key on Redis Cluster: that of what stands between its
// first braces, if something does.
//
// Source: redis.io, cluster specification, "Key distribution model":
// CRC-16/XMODEM modulo 16384.
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

// Redirected reports whether a server refused a command, or discarded a transaction,
// because another server is responsible for its keys, or none is at the moment: the
// server is no master, knows of none, or misses its replicas.
func Redirected(err error) bool {
	return slices.ContainsFunc([]string{
		"MOVED", "ASK", "TRYAGAIN", "READONLY", "UNBLOCKED",
		"MASTERDOWN", "CLUSTERDOWN", "LOADING", "NOREPLICAS",
	}, func(code string) bool {
		return answered(err, code)
	})
}
