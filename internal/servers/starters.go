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
