package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
)

// TestOnYourCluster are commands on one cluster of the user's, one after the other.
func TestOnYourCluster(t *testing.T) {
	t.Parallel()
	if !testkit.Long() {
		t.Skip("starts a cluster, and runs each command on it: set MARKETSIM_LONG")
	}

	on := yourCluster{serverstest.Cluster(t)}
	t.Run("Markets", on.markets)
	t.Run("Sweep", on.sweep)
	t.Run("Prefix", on.prefix)
	t.Run("Killed", on.killed)
	t.Run("NotRemoved", on.notRemoved)
	t.Run("Interrupted", on.interrupted)
	t.Run("InterruptedWhileStocked", on.interruptedWhileStocked)
	t.Run("Rights", on.rights)
	t.Run("OtherNodeDown", on.otherNodeDown)
	t.Run("NodeDown", on.nodeDown)
}

type yourCluster struct{ *servers.Cluster }

func (on yourCluster) url() string {
	return "redis://:" + on.Server.Target.Password + "@" + on.Addrs()[0]
}

// each calls f with a connection to each master.
func (on yourCluster) each(t *testing.T, f func(*redisconn.Conn)) {
	t.Helper()
	for _, master := range on.Server.Cluster().Masters() {
		conn := testkit.Must(redisconn.To(master).Dial(t.Context()))(t)
		f(conn)
		conn.Close()
	}
}

// clean fails if the nodes do not hold what neighbours have, or hold a key besides.
func (on yourCluster) clean(t *testing.T, neighbours ...string) {
	t.Helper()
	var left []string
	on.each(t, func(conn *redisconn.Conn) {
		left = append(left, conn.Keys(t.Context(), "*").Val()...)
	})
	slices.Sort(left)
	slices.Sort(neighbours)
	if !slices.Equal(left, neighbours) {
		t.Errorf("the nodes hold %q, want %q", left[:min(len(left), 20)], neighbours)
	}
}

// neighbours makes keys that are not ours, until the end of the test.
func (on yourCluster) neighbours(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		conn := testkit.Must(on.Server.Dialer(name).Dial(t.Context()))(t)
		t.Cleanup(func() {
			conn.Unlink(context.WithoutCancel(t.Context()), name)
			conn.Close()
		})
		testkit.Succeeds(t, conn.Set(t.Context(), name, "not ours", 0).Err())
	}
}

// markets: those of a row lie on all masters, and all are removed at an interrupt.
func (on yourCluster) markets(t *testing.T) {
	c := startChild(t, "run", "lua", "--mix", "6x6", "--markets", "6", "--duration", "10m",
		"--redis", on.url())
	eventually(t, "six markets", func() bool { return on.open(t) == 6 })
	on.each(t, func(conn *redisconn.Conn) {
		if open := conn.Keys(t.Context(), "*:market:").Val(); len(open) != 2 {
			t.Errorf("a master has the markets %q, want two", open)
		}
	})
	c.interrupt()
	c.end().exits(t, exitInterrupted).says(t, "lua 6x6 markets=6")
	on.clean(t)
}

// sweep: the number of markets is an axis. On one machine the masters share its cores, or the
// rounds are too few: what they add is not decided.
func (on yourCluster) sweep(t *testing.T) {
	args := []string{
		"sweep", "lua", "--mix", "2x2", "--axis", "markets=1,2", "--trials", "6", "--redis", on.url(),
	}
	marketsim(t, short(args...)...).exits(t, exitFine).says(t, "\nMore masters\n", "lua 2x2 markets=2")
	on.clean(t)
}

// open is in how many markets a row trades: a rehearsal has fewer listings.
func (on yourCluster) open(t *testing.T) (markets int) {
	t.Helper()
	on.each(t, func(conn *redisconn.Conn) {
		for _, key := range conn.Keys(t.Context(), "*:market:").Val() {
			if conn.ZCard(t.Context(), key).Val() > 3 {
				markets++
			}
		}
	})
	return markets
}

// prefix: one market needs braces in its prefix, and several that have them share a
// master.
func (on yourCluster) prefix(t *testing.T) {
	marketsim(t, short("run", "--strategy", "lua", "--prefix", "mine:", "--redis", on.url())...).
		exits(t, exitUsage).says(t, "--prefix mine:: on a Redis Cluster", "{mine}:")

	row := measured(t, short("run", "--strategy", "lua", "--prefix", "mine:{a}:",
		"--redis", on.url())...).Rows[0]
	// nobody asks the other masters and the replicas how much they use
	if row.ServerCPU == nil || row.OthersCPU != nil {
		t.Errorf("its master used %v s, and others %v", row.ServerCPU, row.OthersCPU)
	}

	marketsim(t, short("run", "lua", "--prefix", "mine:{a}:", "--markets", "2",
		"--redis", on.url())...).
		exits(t, exitFine).says(t, "the braces in --prefix mine:{a}: put all 2 markets on one master")
	marketsim(t, short("run", "lua", "--prefix", "mine:", "--markets", "2", "--redis", on.url())...).
		exits(t, exitFine).silent(t, "on one master").says(t, "\nMasters\n")

	marketsim(t, "clean", "--prefix", "mine:", "--redis", on.url()).exits(t, exitFine).
		says(t, "nothing to remove: no run has left a market under mine:{1}:")
	marketsim(t, "run", "--strategy", "lua", "--redis", on.url()+"/1").
		exits(t, exitUsage).says(t, "database 0 only")
	on.clean(t)
}

// trading waits until a row's market has more listings than a rehearsal makes.
func (on yourCluster) trading(t *testing.T) {
	t.Helper()
	eventually(t, "listings", func() bool { return on.listings(t) > 3 })
}

func (on yourCluster) listings(t *testing.T) (n int64) {
	t.Helper()
	on.each(t, func(conn *redisconn.Conn) {
		for _, key := range conn.Keys(t.Context(), "*:market:").Val() {
			n = conn.ZCard(t.Context(), key).Val()
		}
	})
	return n
}

// killed: all that a killed run left is removed, and nothing else.
func (on yourCluster) killed(t *testing.T) {
	neighbours := []string{"a", "b", "c", "d", "e", "f"}
	on.neighbours(t, neighbours...)
	c := startChild(t, "run", "--strategy", "fine:set-px,watch", "--mix", "6x6",
		"--duration", "1m", "--redis", on.url())
	prefix := prefixOf(t, c)
	on.trading(t)
	c.kill()
	on.cleaned(t, prefix).says(t, "removed ")
	on.clean(t, neighbours...)

	c = startChild(t, "run", "fine:set-px", "--mix", "6x6", "--markets", "3",
		"--duration", "1m", "--redis", on.url())
	prefix = prefixOf(t, c)
	eventually(t, "three markets", func() bool { return on.open(t) == 3 })
	c.kill()
	if n := strings.Count(on.cleaned(t, prefix).stdout, "removed "); n != 3 {
		t.Errorf("%d markets were removed, want 3", n)
	}
	on.clean(t, neighbours...)
}

// cleaned removes what is under a prefix.
func (on yourCluster) cleaned(t *testing.T, prefix string) outcome {
	t.Helper()
	return marketsim(t, "clean", "--prefix", prefix, "--redis", on.url()).exits(t, exitFine)
}

// may gives or takes a right of the user on the node that has a market.
func (on yourCluster) may(t *testing.T, right string) {
	t.Helper()
	on.each(t, func(conn *redisconn.Conn) {
		if len(conn.Keys(t.Context(), "*:market:").Val()) == 0 {
			return
		}
		testkit.Succeeds(t, conn.Do(t.Context(), "acl", "setuser", "default", right).Err())
	})
}

// notRemoved: the market cannot be removed, and the run says how to do it.
func (on yourCluster) notRemoved(t *testing.T) {
	c := startChild(t, "run", "--strategy", "lua", "--mix", "6x6",
		"--duration", "1m", "--redis", on.url())
	prefix := prefixOf(t, c)
	on.trading(t)
	on.may(t, "-unlink")
	c.interrupt()
	c.end().says(t, "left behind", "NOPERM")
	on.may(t, "+unlink")
	on.cleaned(t, prefix).says(t, "removed")
	on.clean(t)
}

func (on yourCluster) interrupted(t *testing.T) {
	c := startChild(t, "run", "--strategy", "watch", "--mix", "6x6",
		"--duration", "1m", "--redis", on.url())
	on.trading(t)
	c.interrupt()
	c.end().exits(t, exitInterrupted)
	on.clean(t)
}

// interruptedWhileStocked: Ctrl-C while the items of a market are being listed leaves
// nothing of them. The nodes answer no write until the run has heard it.
func (on yourCluster) interruptedWhileStocked(t *testing.T) {
	const stock = 1_000_000 // take seconds
	c := startChild(t, "run", "--strategy", "watch", "--mix", "6x6", "--stock", fmt.Sprint(stock),
		"--duration", "1m", "--redis", on.url())
	on.trading(t)

	client := func(args ...any) {
		on.each(t, func(conn *redisconn.Conn) {
			testkit.Succeeds(t, conn.Do(t.Context(), append([]any{"client"}, args...)...).Err())
		})
	}

	client("pause", patience.Milliseconds(), "write")
	if listings := on.listings(t); listings >= stock {
		t.Errorf("%d items were listed before the run could be interrupted", listings)
	}

	c.interrupt()
	c.awaitStderr("finishing what is in flight")
	client("unpause")
	c.end().exits(t, exitInterrupted).says(t, "interrupted: 0 of 1 row complete").
		silent(t, "left behind")
	on.clean(t)
}

// rights: a user who may not ask for the cluster's slots is told how to be allowed to.
func (on yourCluster) rights(t *testing.T) {
	on.each(t, func(conn *redisconn.Conn) {
		command := []any{"acl", "setuser", "guest", "on", ">s3cret", "~*", "&*", "+@all", "-cluster"}
		testkit.Succeeds(t, conn.Do(t.Context(), command...).Err())
	})
	marketsim(t, short("run", "--strategy", "lua",
		"--redis", "redis://guest:s3cret@"+on.Addrs()[0])...).
		exits(t, exitEnvironment).silent(t, "s3cret").
		says(t, "ACL SETUSER guest '~marketsim:*' '&marketsim:*' '+cluster|slots'\n")
	on.clean(t)
}
