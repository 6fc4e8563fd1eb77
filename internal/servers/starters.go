package servers

import (
	"context"

	"github.com/marketsim/marketsim/market/backend"
)

// ClusterStarter starts a private Redis Cluster for markets. The zero value is ready to use.
type ClusterStarter struct{}

// Name returns [backend.NameCluster].
func (ClusterStarter) Name() backend.Name { return backend.NameCluster }

// Start implements backend.Starter, as StartCluster does.
func (ClusterStarter) Start(ctx context.Context) (*backend.Server, error) {
	c, err := StartCluster(ctx)
	if err != nil {
		return nil, err
	}
	return c.Server(), nil
}

// Server is the cluster as a server of markets, which knows its slots and ends it.
func (c *Cluster) Server() *backend.Server { return c.server }

// SentinelStarter starts a private master, its replica and the sentinels that watch it, for one market. The zero value is
// ready to use.
type SentinelStarter struct{}

// Name returns [backend.NameSentinel].
func (SentinelStarter) Name() backend.Name { return backend.NameSentinel }

// Start implements backend.Starter, as StartSentinel does.
func (SentinelStarter) Start(ctx context.Context) (*backend.Server, error) {
	s, err := StartSentinel(ctx)
	if err != nil {
		return nil, err
	}
	return s.Server(), nil
}

// Server is the master that is watched, as a server of markets, which ends all.
func (s *Sentinel) Server() *backend.Server {
	return backend.NewServer(backend.NameSentinel, s.target(), "private master with a replica, watched by three sentinels,", s.Close)
}
