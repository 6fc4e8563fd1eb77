package zklock

import (
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// tree says where locks are: all of a run under one root, each a node with one child a waiter.
type tree struct {
	root string
	key  func(name string) string
}

func newTree(key func(name string) string) tree { return tree{root: "/" + escape(key("")), key: key} }

// dir is the node of the lock called name.
func (t tree) dir(name string) string {
	return t.root + "/" + escape(strings.TrimPrefix(t.key(name), t.key("")))
}

// escape makes one part of a path of a key. Different keys stay different.
func escape(key string) string {
	switch escaped := url.PathEscape(key); escaped {
	case "": // no escaped key has a % alone
		return "%"
	case ".", "..":
		return "%" + escaped
	default:
		return escaped
	}
}

const (
	tidyPatience = 2 * time.Second
	tidyAtOnce   = 16
)

// tidier removes what a run's locks leave: their own nodes, which are empty.
type tidier struct {
	servers []string
	root    string
}

// Close does what it can. What it cannot remove is in use by others, or a container that the server will remove.
func (t tidier) Close() error {
	conn, ok := t.connect()
	if !ok {
		return nil
	}
	defer conn.Close()
	names, _, err := conn.Children(t.root)
	if err != nil {
		return nil
	}
	var work sync.WaitGroup
	todo := make(chan string)
	for range min(tidyAtOnce, len(names)) {
		work.Go(func() {
			for name := range todo {
				_ = conn.Delete(t.root+"/"+name, -1)
			}
		})
	}
	for _, name := range names {
		todo <- name
	}
	close(todo)
	work.Wait()
	_ = conn.Delete(t.root, -1)
	return nil
}

// connect opens a session that may read long lists.
func (t tidier) connect() (*zk.Conn, bool) {
	ready := make(chan struct{})
	var once sync.Once
	conn, _, err := zk.Connect(t.servers, ttlDefault, zk.WithLogger(silent{}), zk.WithEventCallback(func(e zk.Event) {
		if e.State == zk.StateHasSession {
			once.Do(func() { close(ready) })
		}
	}))
	if err != nil {
		return nil, false
	}
	select {
	case <-ready:
		return conn, true
	case <-time.After(tidyPatience):
		conn.Close()
		return nil, false
	}
}

// silent is a zk.Logger.
type silent struct{}

func (silent) Printf(string, ...any) {}
