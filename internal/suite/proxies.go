package suite

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/wire"
)

// Proxies are between a worker and its servers. A worker with nil connects directly:
// it cannot be held, or crash.
type Proxies struct {
	mu    sync.Mutex
	addrs []string // of the servers, in the order in which the worker asked for them
	all   []*wire.Proxy
}

// NewProxies returns the proxies of one worker, which end with the check.
func (f *Fixture) NewProxies() *Proxies {
	p := new(Proxies)
	f.Cleanup(func() {
		p.Each(func(proxy *wire.Proxy) {
			_ = proxy.Close()
		})
	})
	return p
}

// Through returns the address at which the worker reaches the server at addr, host:port.
// It fails without a free port.
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
	proxy.Record() // so that Arm can tell whether the worker has said anything
	p.addrs = append(p.addrs, addr)
	p.all = append(p.all, proxy)
	return proxy.Addr(), nil
}

// Connect connects the worker to a server through its proxy, and logs in.
func (p *Proxies) Connect(ctx context.Context, target redisconn.Target) (conn net.Conn, err error) {
	target.Addr, err = p.Through(target.Addr)
	if err != nil {
		return nil, err
	}
	return redisconn.To(target).Connect(ctx)
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
	// LongestHold is shorter than client libraries wait for a reply (go-redis 3 s), and
	// then send their request again.
	LongestHold = 2 * time.Second

	mostRequests = 50 // of one operation
	mostRounds   = 10
)

// A HeldRequest holds one operation of a worker, once: before its n-th request to one
// of its servers.
type HeldRequest struct {
	server, nth int
	proxies     *Proxies
	before      *wire.Proxy // the one of the server; nil: the worker has no such server
	trap        *wire.Trap
}

// Arm has the next operation of a worker held. It reports false if the worker has not
// spoken to such a server yet.
func (h *HeldRequest) Arm(p *Proxies) bool {
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

	// Recorded from here on, since String counts its requests as the trap does.
	h.before = spoken[h.server]
	h.before.Record()
	h.trap = h.before.Hold(wire.Match{Nth: h.nth})
	return true
}

// Nth is before which of its requests to that server the worker is held, from 1.
func (h *HeldRequest) Nth() int { return h.nth }

// Deliver lets the request pass. What else is held stays so until Open.
func (h *HeldRequest) Deliver() { h.trap.Open() }

// Pause holds all else that the worker says as well, such as renewals.
func (h *HeldRequest) Pause() { h.proxies.Each((*wire.Proxy).Partition) }

// Open lets the worker go on. It may be called more than once.
func (h *HeldRequest) Open() {
	h.trap.Open()
	h.proxies.Each((*wire.Proxy).Heal)
}

// String says between which requests the worker was held. Before it
// was, its request has no name yet.
func (h *HeldRequest) String() string {
	sent := h.before.Commands()
	name := func(n int) string {
		return fmt.Sprintf("request %d (%s)", n, strings.ToUpper(sent[n-1]))
	}
	if h.nth == 1 {
		return "before its " + name(1)
	}
	return "between its " + name(h.nth-1) + " and its " + name(h.nth)
}

// HoldAtEach holds an operation before each request to each server. A try arms h, and returns
// false if the operation did not come to the request; it is made once more, because a busy
// machine may be the cause. The check is unchecked if no operation came to any in several
// rounds: a client of several servers, such as etcd's, may use another one each time.
func (f *Fixture) HoldAtEach(operation string, try func(h *HeldRequest) bool) {
	f.Helper()
	held := false
	for round := 0; round < mostRounds && !held; round++ {
		for server := 0; ; server++ {
			requests, exists := f.holdAtServer(operation, server, try)
			held = held || requests > 0
			if !exists {
				break
			}
		}
	}

	if !held {
		f.Unchecked(operation + " cannot be held: it does not connect through the suite")
	}
}

// holdAtServer holds an operation before each request to one of the worker's servers. It
// returns before how many it was held, and whether the worker has such a server.
func (f *Fixture) holdAtServer(
	operation string, server int, try func(h *HeldRequest) bool,
) (requests int, exists bool) {
	f.Helper()
	for {
		h := &HeldRequest{server: server, nth: requests + 1}
		came := try(h) || h.before != nil && try(h)
		if !came {
			return requests, h.before != nil
		}

		requests++
		if requests == mostRequests {
			f.Unchecked(fmt.Sprintf("%s sends more than %d requests", operation, mostRequests))
		}
	}
}

// AwaitHold waits until the call is held. It reports false when the call has ended,
// and nothing is held any more.
func (f *Fixture) AwaitHold(c *Call, h *HeldRequest) bool {
	f.Cleanup(h.Open) // before the call is waited for
	held := f.AwaitPoint(c, h.trap.Reached())
	if !held {
		h.Open()
	}
	return held
}
