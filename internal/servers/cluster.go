package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
)

const (
	clusterNodes = 6
	// clusterNodeTimeout is how many milliseconds of silence make a replica take over. A
	// busy machine seldom stands still for as long. If it were longer, an election that
	// fails in a CLUSTER FAILOVER would not be repeated in its 5 s.
	clusterNodeTimeout = "1000"
)

// A Cluster is a Redis Cluster of six nodes: three masters, each with a replica. If a
// master is killed, its replica usually takes over within three seconds. Its methods are
// not safe for concurrent use, except for Master.
type Cluster struct {
	Redises
	// Server is the cluster as a server of markets, which knows its slots and ends it.
	Server *backend.Server
}

// StartCluster starts a cluster and returns when every node says that it serves and every
// replica follows its master. On a busy machine the nodes may miss each other, and
// redis-cli's wait fails: then it starts another cluster.
func StartCluster(ctx context.Context) (*Cluster, error) {
	cli, err := process.Find("redis-tools", "redis-cli", "valkey-cli")
	if err != nil {
		return nil, err
	}
	c, err := startCluster(ctx, cli)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return startCluster(ctx, cli)
	}
	return c, err
}

func startCluster(ctx context.Context, cli string) (*Cluster, error) {
	// Half of the time for a start, because StartCluster may call twice.
	ctx, cancel := context.WithTimeout(ctx, startTimeout/2)
	defer cancel()

	// One for all: slots say which node serves a key, and not with which password.
	password := rand.Text()
	nodes, err := startRedises(ctx, clusterNodes, backend.Local{Password: password, Args: []string{
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", clusterNodeTimeout,
		"--repl-diskless-sync-delay", "0",
	}})

	c := &Cluster{Redises: nodes}
	if err == nil {
		err = c.join(ctx, cli)
	}
	if err == nil {
		c.Server = backend.NewServer(backend.OriginCluster, c.Redises[0].Target,
			"private cluster of three masters, each with a replica,", c.Close)
		err = c.Server.Discover(ctx)
	}
	if err != nil {
		// By what OfContext adds, StartCluster knows that the time was up, and tries again.
		err = fmt.Errorf("starting a Redis Cluster: %w", redisconn.OfContext(ctx, err))
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) join(ctx context.Context, cli string) error {
	create := append([]string{"--cluster", "create"}, c.Addrs()...)
	create = append(create, "--cluster-replicas", "1", "--cluster-yes")
	cmd := &process.Process{
		Program: cli, Args: create, Folder: c.Redises[0].Folder,
		Env: append(os.Environ(), "REDISCLI_AUTH="+c.Redises[0].Target.Password),
	}
	if err := cmd.Run(ctx); err != nil {
		return fmt.Errorf("making a cluster of %s: %w", strings.Join(c.Addrs(), ", "), err)
	}
	return c.AwaitReady(ctx)
}

// clusterReady is nil if a node serves and its data is replicated: a replica has the link to
// its master, a master its one replica.
func clusterReady(ctx context.Context, conn *redisconn.Conn) error {
	info, err := conn.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}

	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New("its cluster_state is not ok")
	}

	fields, err := conn.InfoFields(ctx, "replication")
	if err != nil {
		return err
	}

	lonelyReplica := fields["role"] == "slave" && fields["master_link_status"] != "up"
	lonelyMaster := fields["role"] == "master" && fields["connected_slaves"] != "1"
	if lonelyReplica || lonelyMaster {
		return errors.New("replication has not begun")
	}
	return nil
}

// Master returns which node is the master of a key's slot now, as the first
// node that answers says.
func (c *Cluster) Master(ctx context.Context, key string) (int, error) {
	if err := c.Server.Cluster().Refresh(ctx); err != nil {
		return 0, err
	}
	if i := slices.Index(c.Addrs(), c.Server.Cluster().Master(key).Addr); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("no node is the master of key %q", key)
}

// ReplicaOf returns which node is the replica of master i: the first that names its port. All
// nodes are on 127.0.0.1, so that a port is enough.
func (c *Cluster) ReplicaOf(ctx context.Context, i int) (int, error) {
	_, port, _ := net.SplitHostPort(c.Addrs()[i]) // which are host:port
	for n := range c.Redises {
		var fields map[string]string
		err := redisconn.With(ctx, c.Redises[n].Target, func(conn *redisconn.Conn) (err error) {
			fields, err = conn.InfoFields(ctx, "replication")
			return err
		})
		if err == nil && fields["role"] == "slave" && fields["master_port"] == port {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no node of the cluster is the replica of %s", c.Addrs()[i])
}

// AwaitReady returns when every node serves and every replica follows its
// master, or ctx ends.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	return each(len(c.Redises), func(i int) error {
		return redisconn.With(ctx, c.Redises[i].Target, func(conn *redisconn.Conn) error {
			return process.Await(ctx, pollEvery, func() error {
				return clusterReady(ctx, conn)
			})
		})
	})
}

// ClusterStarter starts a private Redis Cluster for markets. The zero value is
// ready to use.
type ClusterStarter struct{}

// Name returns [backend.OriginCluster].
func (ClusterStarter) Name() backend.Origin { return backend.OriginCluster }

// Start implements backend.Starter, as StartCluster does.
func (ClusterStarter) Start(ctx context.Context) (*backend.Server, error) {
	c, err := StartCluster(ctx)
	if err != nil {
		return nil, err
	}
	return c.Server, nil
}
