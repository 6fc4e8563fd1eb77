// Package servers starts groups of private servers, for locks that need more than the market's Redis and for
// scenarios that harm servers: independent masters ([StartMasters]), a Redis Cluster ([StartCluster]), and ensembles of
// ZooKeeper or etcd ([StartZooKeeper], [StartEtcd]). [ForLock] gives a lock what it needs.
//
// All are processes of this machine on free ports of 127.0.0.1, each in a temporary folder and a process group of its
// own, ended by Close; on Linux they end with this process however that ends. A Start function returns when its
// servers serve. Its error wraps [backend.ErrUnavailable] and names the package to install when a program is missing.
package servers

import (
	"errors"
	"sync"
	"time"
)

const (
	startTimeout = time.Minute // a busy machine is slow
	pollEvery    = 10 * time.Millisecond
)

// each calls do with 0 to n-1, all at the same time, and joins the errors.
func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { errs[i] = do(i) })
	}
	work.Wait()
	return errors.Join(errs...)
}
