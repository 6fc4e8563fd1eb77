package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/embedded"
	"github.com/marketsim/marketsim/market/backend/etcd"
	"github.com/marketsim/marketsim/market/backend/zookeeper"
	"github.com/marketsim/marketsim/strategies/lock"
)

// A Lab holds the servers that stages share: those that no scenario harms. It is safe for concurrent use.
type Lab struct {
	redis  *backend.Server
	folder string

	mu        sync.Mutex
	zookeeper *zookeeper.Ensemble
	etcd      *etcd.Cluster
	stages    int
}

// OpenLab starts a private server for the markets: redis-server or valkey-server, or an embedded one where there is
// neither. The caller closes the lab.
func OpenLab(ctx context.Context) (*Lab, error) {
	server, err := backend.Start(ctx, "", nil, backend.Local{}, embedded.Starter{})
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "marketsim-faults-")
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &Lab{redis: server, folder: folder}, nil
}

// Describe says in a line where the markets live.
func (l *Lab) Describe() string { return l.redis.Describe() }

// Manifest says what plays here, for a Result; version is marketsim's.
func (l *Lab) Manifest(ctx context.Context, version string) (Manifest, error) {
	info, err := l.redis.Info(ctx)
	if err != nil {
		return Manifest{}, err
	}
	return Manifest{
		Version: version, Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Backend: string(l.redis.Kind), Server: info.Product, ServerVersion: info.Version,
	}, nil
}

// Close ends the servers.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := []error{l.redis.Close(), os.RemoveAll(l.folder)}
	if l.zookeeper != nil {
		errs = append(errs, l.zookeeper.Close())
	}
	if l.etcd != nil {
		errs = append(errs, l.etcd.Close())
	}
	return errors.Join(errs...)
}

// prefix is a new stage's.
func (l *Lab) prefix() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stages++
	return fmt.Sprintf("marketsim:{faults-%d}:", l.stages)
}

// provide names the servers that a lock needs, in a casting. Masters are not shared: scenarios kill them.
func (l *Lab) provide(ctx context.Context, need lock.Need, cast *casting) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch need {
	case lock.NeedsZooKeeper:
		if l.zookeeper == nil {
			if l.zookeeper, err = zookeeper.Start(ctx, 1); err != nil {
				return err
			}
		}
		cast.ZooKeeper = l.zookeeper.Addrs()
	case lock.NeedsEtcd:
		if l.etcd == nil {
			if l.etcd, err = etcd.Start(ctx, 1); err != nil {
				return err
			}
		}
		cast.Etcd = l.etcd.Addrs()
	}
	return nil
}
