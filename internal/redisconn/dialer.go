package redisconn

import (
	"context"
	"net"
	"time"
)

// A Dialer says how connections to one server are made. It is a value that does not
// change: the methods With... return a copy. What is dialled later in the background, such
// as a renewal's connection, follows the same Dialer as the connection beside it. [To],
// [Over] and [Cluster.Dialer] make one; the zero value connects to nothing.
type Dialer struct {
	target  Target
	cluster *Cluster // whose slot's master it connects to; nil: to target
	slot    int
	// Connects in place of the network; nil: nothing does.
	over func(context.Context) (net.Conn, error)

	stats        *Stats        // where connections count; nil: each into its own
	delay        time.Duration // of what is received
	replyTimeout time.Duration // for how long a reply is waited for; 0: ioTimeout
	resends      int           // how often a command is sent again whose reply did not come
	pipelining   bool          // its clients are shared by the workers of a process
	following    bool          // its clients follow a slot that moves

	wrap WrapDial // nil: nothing
}

// A DialFunc dials as [Dialer.Dial] does.
type DialFunc func(ctx context.Context) (*Conn, error)

// A WrapDial calls dial, or does not.
type WrapDial func(ctx context.Context, dial DialFunc) (*Conn, error)

// To connects to t.
func To(t Target) Dialer { return Dialer{target: t} }

// Over connects over connections that connect makes, such as those to a server in memory.
func Over(connect func(context.Context) (net.Conn, error)) Dialer {
	return Dialer{over: connect, target: Target{Network: "memory", Addr: "memory"}}
}

// IsZero reports whether d is the zero value.
func (d Dialer) IsZero() bool {
	return d.target == (Target{}) && d.cluster == nil && d.over == nil && d.wrap == nil
}

// WithStats has connections count into s, and not each into its own. A client that workers
// share counts for itself all the same. Nil changes nothing.
func (d Dialer) WithStats(s *Stats) Dialer {
	if s != nil {
		d.stats = s
	}
	return d
}

// WithDelay has connections hand over what they receive later, as if the server were
// farther away. What comes in several pieces is late once. What is sent is not late, nor
// is TLS's set-up.
func (d Dialer) WithDelay(by time.Duration) Dialer {
	d.delay = by
	return d
}

// WithReplyTimeout has connections wait for a reply until the limit, and not for 5 s.
func (d Dialer) WithReplyTimeout(limit time.Duration) Dialer {
	d.replyTimeout = limit
	return d
}

// WithResends has clients send a command again, three times at most, when its reply did
// not come: go-redis's default, and the first of the rules that the package comment
// explains.
func (d Dialer) WithResends() Dialer {
	d.resends = 3
	return d
}

// WithWrap has Dial call wrap, with what it did before.
func (d Dialer) WithWrap(wrap WrapDial) Dialer {
	before := d.wrap
	d.wrap = wrap
	if before != nil {
		d.wrap = func(ctx context.Context, dial DialFunc) (*Conn, error) {
			return wrap(ctx, func(ctx context.Context) (*Conn, error) {
				return before(ctx, dial)
			})
		}
	}
	return d
}

// WithPipelining has Dial make a client that all workers of a process share: see the
// package comment.
func (d Dialer) WithPipelining() Dialer {
	d.pipelining = true
	return d
}

// connector is what makes the connections of one Conn.
func (d Dialer) connector() *connector {
	m := &meter{Stats: d.stats, shared: d.pipelining}
	if m.Stats == nil || m.shared {
		m.Stats = &Stats{}
	}
	return &connector{Dialer: d, meter: m, last: d.target}
}
