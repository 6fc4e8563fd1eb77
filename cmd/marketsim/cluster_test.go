package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

// TestOnYourCluster are commands on one cluster of the user's, one after the other.
func TestOnYourCluster(t *testing.T) {
	t.Parallel()
	on := yourCluster{testkit.Cluster(t)}
	t.Run("Markets", on.markets)
	t.Run("Sweep", on.sweep)
	t.Run("Prefix", on.prefix)
	t.Run("Killed", on.killed)
	t.Run("Interrupted", on.interrupted)
	t.Run("Rights", on.rights)
	t.Run("Incomplete", on.incomplete)
	t.Run("NodeDown", on.nodeDown)
}

type yourCluster struct{ *servers.Cluster }

func (on yourCluster) url() string { return "redis://" + on.Addrs()[0] }

// each calls f with a connection to each master.
func (on yourCluster) each(t *testing.T, f func(*backend.Conn)) {
	t.Helper()
	for _, master := range on.Server().Cluster().Masters() {
		conn, err := backend.Dial(t.Context(), master)
		if err != nil {
			t.Fatal(err)
		}
		f(conn)
		conn.Close()
	}
}

// clean fails if a node holds a key besides those of a neighbour.
func (on yourCluster) clean(t *testing.T) {
	t.Helper()
	on.each(t, func(conn *backend.Conn) {
		for _, key := range conn.Keys(t.Context(), "*").Val() {
			if !strings.HasPrefix(key, "neighbour") {
				t.Errorf("%s is left at %s", key, conn.Options().Addr)
			}
		}
	})
}

// markets: those of a row lie on all masters, the same number on each, and the table says what each had.
func (on yourCluster) markets(t *testing.T) {
	o := marketsim(t, short("run", "--strategy", "lua", "--mix", "6x6", "--markets", "6", "--redis", on.url())...)
	o.exits(t, exitFine).says(t, "lua 6x6 markets=6", "Nodes\n")
	o = marketsim(t, short("run", "--strategy", "lua", "--mix", "6x6", "--markets", "6", "--redis", on.url(), "--json", "-")...)
	var run result.Run
	if err := json.Unmarshal([]byte(o.stdout), &run); err != nil {
		t.Fatal(err)
	}
	nodes := run.Rows[0].Nodes
	if len(nodes) != 3 || slices.ContainsFunc(nodes, func(n result.Node) bool { return n.Markets != 2 || n.Bought == 0 }) {
		t.Errorf("nodes %+v, want three with two markets each", nodes)
	}
	on.clean(t)
}

// sweep: the number of markets is an axis.
func (on yourCluster) sweep(t *testing.T) {
	marketsim(t, short("sweep", "--strategy", "lua", "--clients", "2", "--axis", "markets=1,2", "--trials", "6", "--redis",
		on.url())...).exits(t, exitFine).says(t, "markets")
	on.clean(t)
}

func (on yourCluster) prefix(t *testing.T) {
	marketsim(t, short("run", "--strategy", "lua", "--prefix", "mine:", "--redis", on.url())...).exits(t, exitUsage).
		says(t, "--prefix mine:: on a Redis Cluster", "{mine}:")
	marketsim(t, short("run", "--strategy", "lua", "--prefix", "mine:{a}:", "--markets", "2", "--redis", on.url())...).
		exits(t, exitFine)
	marketsim(t, "run", "--strategy", "lua", "--redis", on.url()+"/1").exits(t, exitUsage).says(t, "database 0 only")
	on.clean(t)
}

// trading waits until so many markets of a run are open and traded in.
func (on yourCluster) trading(t *testing.T, markets int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d markets", markets), func() bool {
		open := 0
		on.each(t, func(conn *backend.Conn) {
			for _, key := range conn.Keys(t.Context(), "*:market:").Val() {
				if conn.ZCard(t.Context(), key).Val() > 3 {
					open++
				}
			}
		})
		return open == markets
	})
}

// killed: the prefix of the first market removes all that a killed run left, on every node, and nothing else. Those that
// it had not made yet are not missed.
func (on yourCluster) killed(t *testing.T) {
	for i := range 9 {
		conn, err := on.Dial(t.Context(), fmt.Sprint("neighbour", i))
		if err != nil {
			t.Fatal(err)
		}
		conn.Set(t.Context(), fmt.Sprint("neighbour", i), 1, 0)
		conn.Close()
	}
	c := startChild(t, "run", "--strategy", "fine:set-px,watch", "--mix", "6x6", "--markets", "3", "--duration", "1m", "--redis",
		on.url())
	prefix := prefixOf(t, c)
	on.trading(t, 3)
	c.kill()
	on.each(t, func(conn *backend.Conn) { // as if it had been killed before the third was made
		for _, key := range conn.Keys(t.Context(), "*-3*").Val() {
			conn.Unlink(t.Context(), key)
		}
	})
	marketsim(t, "clean", "--prefix", prefix, "--redis", on.url()).exits(t, exitFine).says(t, "removed ", "-2", "nothing to remove")
	on.clean(t)
	kept := 0
	on.each(t, func(conn *backend.Conn) { kept += int(conn.DBSize(t.Context()).Val()) })
	if kept != 9 {
		t.Errorf("%d keys of a neighbour are left of 9", kept)
	}
}

func (on yourCluster) interrupted(t *testing.T) {
	c := startChild(t, "run", "--strategy", "watch", "--mix", "6x6", "--markets", "3", "--duration", "1m", "--redis", on.url())
	on.trading(t, 3)
	c.interrupt()
	c.end().exits(t, exitInterrupted)
	on.clean(t)
}

// rights: a user who may not ask for the cluster's slots is told how to be allowed to.
func (on yourCluster) rights(t *testing.T) {
	on.each(t, func(conn *backend.Conn) {
		if err := conn.Do(t.Context(), "acl", "setuser", "guest", "on", ">s3cret", "~*", "&*", "+@all", "-cluster").Err(); err != nil {
			t.Fatal(err)
		}
	})
	marketsim(t, short("run", "--strategy", "lua", "--redis", "redis://guest:s3cret@"+on.Addrs()[0])...).
		exits(t, exitEnvironment).says(t, "ACL SETUSER <user> +cluster|slots").silent(t, "s3cret")
	on.clean(t)
}

// incomplete: a slot that nobody serves, and what to look at then.
func (on yourCluster) incomplete(t *testing.T) {
	slots, err := testkit.Dial(t, on.Server()).Do(t.Context(), "cluster", "slots").Slice()
	if err != nil {
		t.Fatal(err)
	}
	missing := slots[0].([]any)[0].(int64)
	on.each(t, func(conn *backend.Conn) {
		if err := conn.Do(t.Context(), "cluster", "delslots", missing).Err(); err != nil {
			t.Fatal(err)
		}
	})
	marketsim(t, short("run", "--strategy", "lua", "--redis", on.url())...).exits(t, exitEnvironment).
		says(t, fmt.Sprintf("serves slot %d: it is not complete", missing), "redis-cli --cluster check "+on.Addrs()[0])
}

// nodeDown: a row does not begin where a master is missing, or the node that was named. It is the last that is played.
func (on yourCluster) nodeDown(t *testing.T) {
	named, err := on.Master(t.Context(), "neighbour0")
	if err != nil {
		t.Fatal(err)
	}
	if err := on.Kill(named); err != nil {
		t.Fatal(err)
	}
	marketsim(t, short("run", "--strategy", "lua", "--redis", "redis://"+on.Addrs()[named])...).exits(t, exitEnvironment).
		says(t, "cannot reach Redis", "is it running, and is this its address?")
}

// TestSentinelsThatDoNotKnow: a name that no sentinel knows, and sentinels that are not there.
func TestSentinelsThatDoNotKnow(t *testing.T) {
	t.Parallel()
	s := testkit.Sentinel(t).Server()
	row := func(url string) outcome { return marketsim(t, short("run", "--strategy", "lua", "--redis", url)...) }
	row("sentinel://"+s.Target.Addr+"/nobody").exits(t, exitEnvironment).
		says(t, "no sentinel says where the master is", `knows no master called "nobody"; it knows market`)
	row("sentinel://"+refusedAddr(t)+"/market").exits(t, exitEnvironment).says(t, "no sentinel says where the master is", "cannot reach")
	row("sentinel://"+s.Target.Addr).exits(t, exitUsage)
	marketsim(t, short("run", "--strategy", "lua", "--mix", "2x2", "--markets", "2", "--redis", "sentinel://"+s.Target.Addr+"/market")...).
		exits(t, exitFine).says(t, "Nodes")
}
