package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	clusterNodes = 6
	// clusterNodeTimeout is how many milliseconds a node may be silent before the others call it failed and a replica
	// takes over: few, so that a scenario that kills a master goes on within two seconds.
	clusterNodeTimeout = "500"
)

// ErrNoMaster is returned by Cluster's Master and Dial while no living node serves the key's slot.
var ErrNoMaster = errors.New("no master serves the slot")

// A Cluster is a Redis Cluster of six nodes: three masters, each with a replica. If a master is killed, its replica
// takes over within two seconds. Its methods are not safe for concurrent use, except for Master and Dial.
type Cluster struct {
	redises
	known  *backend.Cluster // as the nodes tell a client
	server *backend.Server
}

// StartCluster starts a cluster and returns when every node says that it serves and every replica follows its master.
func StartCluster(ctx context.Context) (*Cluster, error) {
	cli, err := find("redis-tools", "redis-cli", "valkey-cli")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	nodes, err := startRedises(ctx, clusterNodes, startClusterNode)
	c := &Cluster{redises: nodes}
	if err == nil {
		err = c.join(ctx, cli)
	}
	if err == nil {
		c.known, err = backend.OpenCluster(ctx, c.redises[0].Target)
	}
	if err == nil {
		c.server = backend.NewServer(backend.NameCluster, c.redises[0].Target, "private cluster of three masters, each with a replica,",
			c.Close)
		err = c.server.Discover(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a Redis Cluster: %w", backend.OfContext(ctx, err)), c.Close())
	}
	return c, nil
}

// startClusterNode starts one node that is in no cluster yet. Its peers talk to it on another port, 10000 above its
// own: both lie below the range from which the system takes the ports of outgoing connections.
func startClusterNode(ctx context.Context) (node *backend.Server, err error) {
	const lowest, highest = 10000, 22000
	err = backend.OnFreePorts(ctx, 0, func([]string) (err error) {
		node, err = backend.Local{Args: []string{
			"--port", strconv.Itoa(lowest + rand.IntN(highest-lowest)), "--cluster-enabled", "yes",
			"--cluster-node-timeout", clusterNodeTimeout, "--repl-diskless-sync-delay", "0",
		}}.Start(ctx)
		return err
	})
	return node, err
}

// join makes a cluster of the nodes and waits until all agree that it works.
func (c *Cluster) join(ctx context.Context, cli string) error {
	create := append([]string{"--cluster", "create"}, c.Addrs()...)
	create = append(create, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := exec.CommandContext(ctx, cli, create...).CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("redis-cli --cluster create: %w; the end of what it said:\n%s", err,
			strings.Join(lines[max(0, len(lines)-6):], "\n"))
	}
	return c.AwaitReady(ctx)
}

// clusterReady says why a node does not serve yet.
func clusterReady(ctx context.Context, conn *backend.Conn) error {
	info, err := conn.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New("its cluster_state is not ok")
	}
	replication, err := conn.Client.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if strings.Contains(replication, "role:slave") && !strings.Contains(replication, "master_link_status:up") ||
		strings.Contains(replication, "role:master") && !strings.Contains(replication, "connected_slaves:1") {
		return errors.New("replication has not begun")
	}
	return nil
}

// Master returns which node is the master of a key's slot now, as the first node says that answers.
func (c *Cluster) Master(ctx context.Context, key string) (int, error) {
	if err := c.known.Refresh(ctx); err != nil {
		return 0, fmt.Errorf("%w of key %q: %w", ErrNoMaster, key, err)
	}
	if i := slices.Index(c.Addrs(), c.known.Master(key).Addr); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%w of key %q", ErrNoMaster, key)
}

// OtherMaster returns a master that does not serve a key's slot.
func (c *Cluster) OtherMaster(ctx context.Context, key string) (int, error) {
	at, err := c.Master(ctx, key)
	if err != nil {
		return 0, err
	}
	for _, master := range c.known.Masters() {
		if i := slices.Index(c.Addrs(), master.Addr); i >= 0 && i != at {
			return i, nil
		}
	}
	return 0, errors.New("the cluster has one master")
}

// ReplicaOf returns which node is the replica of master i.
func (c *Cluster) ReplicaOf(ctx context.Context, i int) (int, error) {
	_, port, err := net.SplitHostPort(c.Addrs()[i])
	if err != nil {
		return 0, err
	}
	for n := range c.redises {
		var fields map[string]string
		err := c.with(ctx, n, func(conn *backend.Conn) (err error) {
			fields, err = conn.InfoFields(ctx, "replication")
			return err
		})
		if err == nil && fields["role"] == "slave" && fields["master_port"] == port {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no node of the cluster is the replica of %s", c.Addrs()[i])
}

// AwaitMaster returns when node i is the master of a key's slot. Without a bound in ctx it may wait for ever.
func (c *Cluster) AwaitMaster(ctx context.Context, key string, i int) error {
	return backend.Await(ctx, pollEvery, func() error {
		switch at, err := c.Master(ctx, key); {
		case err != nil:
			return err
		case at != i:
			return fmt.Errorf("%s has not taken the place of %s", c.Addrs()[i], c.Addrs()[at])
		}
		return nil
	})
}

// AwaitReady returns when every node serves and every replica follows its master. Without a bound in ctx it may wait for
// ever.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	return each(len(c.redises), func(i int) error {
		return c.with(ctx, i, func(conn *backend.Conn) error {
			return backend.Await(ctx, pollEvery, func() error { return clusterReady(ctx, conn) })
		})
	})
}

// Disconnect closes the connections of all clients: what they have sent and no node has read is lost.
func (c *Cluster) Disconnect(ctx context.Context) error {
	return each(len(c.redises), func(i int) error {
		return c.with(ctx, i, func(conn *backend.Conn) error {
			return conn.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err()
		})
	})
}

// Configure sets a parameter of node i.
func (c *Cluster) Configure(ctx context.Context, i int, name, value string) error {
	err := c.with(ctx, i, func(conn *backend.Conn) error { return conn.ConfigSet(ctx, name, value).Err() })
	if err != nil {
		return fmt.Errorf("setting %s of %s: %w", name, c.Addrs()[i], err)
	}
	return nil
}

// Dial connects to the master of a key's slot. It is a plain connection: should the slot move to another node, its
// commands fail and Dial has to be called again.
func (c *Cluster) Dial(ctx context.Context, key string) (*backend.Conn, error) {
	i, err := c.Master(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.redises[i].Dial(ctx)
}

// Dialer is Dial for lock.Env, for locks whose keys all lie on the slot of key.
func (c *Cluster) Dialer(key string) func(context.Context) (*redis.Client, error) {
	return func(ctx context.Context) (*redis.Client, error) {
		conn, err := c.Dial(ctx, key)
		if err != nil {
			return nil, err
		}
		return conn.Client, nil
	}
}
