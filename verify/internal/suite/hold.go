package suite

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend"
)

// Proxies are between a worker and its servers. Nil is of one that nobody holds or ends: it connects directly.
type Proxies struct {
	mu    sync.Mutex
	addrs []string // of the servers, in the order in which the worker asked for them
	all   []*wire.Proxy
}

// NewProxies returns the proxies of one worker, which end with the check.
func (f *Fixture) NewProxies() *Proxies {
	p := new(Proxies)
	f.Cleanup(func() { p.Each(func(proxy *wire.Proxy) { _ = proxy.Close() }) })
	return p
}

// Through returns the address at which the worker reaches the server at addr, host:port. It fails without a free port.
func (p *Proxies) Through(addr string) (string, error) {
	if p == nil {
		return addr, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.addrs, addr); i >= 0 {
		return p.all[i].Addr(), nil
	}
	proxy, err := wire.Start(addr)
	if err != nil {
		return "", err
	}
	proxy.Record()
	p.addrs, p.all = append(p.addrs, addr), append(p.all, proxy)
	return proxy.Addr(), nil
}

// Connect connects the worker to a server through its proxy, and logs in.
func (p *Proxies) Connect(ctx context.Context, target backend.Target) (conn net.Conn, err error) {
	target.Addr, err = p.Through(target.Addr)
	if err != nil {
		return nil, err
	}
	return backend.Connect(ctx, target)
}

// Each does something to each proxy, and reports whether there is one.
func (p *Proxies) Each(do func(*wire.Proxy)) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	all := slices.Clone(p.all)
	p.mu.Unlock() // while do is at work, the worker may ask for one more
	for _, proxy := range all {
		do(proxy)
	}
	return len(all) > 0
}

const (
	// LongestHold is less than the time for which client libraries wait for a reply (go-redis 3 s): a library that sends
	// its request again is not to be blamed for what the suite held.
	LongestHold = 2 * time.Second

	mostRequests = 50 // of one operation
	mostRounds   = 10
)

// A Hold holds one operation of a worker, once: before its n-th request to one of its servers.
type Hold struct {
	server, nth int
	proxies     *Proxies
	before      *wire.Proxy // the one of the server; nil: the worker has no such server
	trap        *wire.Trap
}

// Arm has the next operation of a worker held. It reports false if the worker has not spoken to such a server yet.
func (h *Hold) Arm(p *Proxies) bool {
	h.proxies = p
	var spoken []*wire.Proxy
	p.Each(func(proxy *wire.Proxy) {
		if len(proxy.Commands()) > 0 {
			spoken = append(spoken, proxy)
		}
	})
	if h.server >= len(spoken) {
		return false
	}
	h.before = spoken[h.server]
	h.before.Record()
	h.trap = h.before.Hold(wire.Match{Nth: h.nth})
	return true
}

// Pause holds all else that the worker says as well, such as renewals.
func (h *Hold) Pause() { h.proxies.Each((*wire.Proxy).Partition) }

// Open lets the worker go on. It may be called more than once.
func (h *Hold) Open() {
	h.trap.Open()
	h.proxies.Each((*wire.Proxy).Heal)
}

// String says between which requests the worker was held.
func (h *Hold) String() string {
	sent := h.before.Commands()
	name := func(n int) string { return fmt.Sprintf("request %d (%s)", n, strings.ToUpper(sent[n-1])) }
	if h.nth == 1 {
		return "before its " + name(1)
	}
	return "between its " + name(h.nth-1) + " and its " + name(h.nth)
}

// AtEach holds an operation before each request to each server, with one try each. A try returns false when the
// operation did not come to the request. The check is unchecked where no operation came to any, again and again: a
// client of several servers, such as etcd's, may go to another one each time.
func (f *Fixture) AtEach(operation string, try func(h *Hold) bool) {
	f.Helper()
	for range mostRounds {
		if f.eachOnce(operation, try) {
			return
		}
	}
	f.Unchecked(operation + " cannot be held: it does not connect through the suite")
}

// eachOnce goes through the servers once. It reports whether the operation was held at all.
func (f *Fixture) eachOnce(operation string, try func(h *Hold) bool) (held bool) {
	f.Helper()
	for h := (&Hold{nth: 1}); ; {
		if try(h) {
			held = true
			h = &Hold{server: h.server, nth: h.nth + 1}
		} else if h.before != nil {
			h = &Hold{server: h.server + 1, nth: 1}
		} else {
			return held
		}
		if h.nth > mostRequests {
			f.Unchecked(fmt.Sprintf("%s sends more than %d requests", operation, mostRequests))
		}
	}
}

// Comes waits until the call is held. It reports false when the call has ended, and nothing is held any more.
func (f *Fixture) Comes(c *Call, h *Hold) bool {
	f.Cleanup(h.Open) // before the call is waited for
	held := f.Reaches(c, h.trap.Reached())
	if !held {
		h.Open()
	}
	return held
}
