// Package etcd runs a private etcd server: one member, the real code inside this process, over real sockets. It is apart
// from package backend because of what it imports.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const startTimeout = 20 * time.Second

// Server is an etcd server, ended by Close.
type Server struct {
	etcd   *embed.Etcd
	folder string
	close  func() error
}

// Start starts a server on free ports of 127.0.0.1, in a temporary folder of its own, and returns when it serves.
//
// It writes to disk as it would in earnest: each change is synced to the log before it is answered. A lease lasts for
// two seconds at least, whatever its client asks for: half as long again as an election may take, rounded up.
func Start(ctx context.Context) (*Server, error) {
	if err := ctx.Err(); err != nil { // once begun, it cannot be interrupted
		return nil, err
	}
	folder, err := os.MkdirTemp("", "marketsim-etcd-")
	if err != nil {
		return nil, fmt.Errorf("making etcd's folder: %w", err)
	}
	e, err := embed.StartEtcd(config(folder))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting etcd: %w", err), os.RemoveAll(folder))
	}
	s := &Server{etcd: e, folder: folder}
	s.close = sync.OnceValue(s.end)
	if err := s.awaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting etcd: %w", err), s.Close())
	}
	return s, nil
}

// config asks for free ports: nobody looks for the server at the URLs that it advertises, because it is alone.
func config(folder string) *embed.Config {
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c := embed.NewConfig()
	c.Name, c.Dir = "marketsim", folder
	c.ListenClientUrls, c.AdvertiseClientUrls = free, free
	c.ListenPeerUrls, c.AdvertisePeerUrls = free, free
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop()) // what matters comes back as errors
	return c
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case <-s.etcd.Server.StopNotify():
		return errors.New("it stopped as soon as it was started")
	case err := <-s.etcd.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Addrs is the address for clients, host:port.
func (s *Server) Addrs() []string { return []string{s.etcd.Clients[0].Addr().String()} }

// Close ends the server and removes its folder. Clients should be closed before: it waits some seconds for their
// requests to end.
func (s *Server) Close() error { return s.close() }

func (s *Server) end() error {
	s.etcd.Close()
	return os.RemoveAll(s.folder)
}
