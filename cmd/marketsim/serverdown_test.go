package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// A cluster of the user's of which a part is missing when a command starts: see
// TestOnYourCluster.

// otherNodeDown: a row does not begin where the node that was named is up and another
// master is down, before the others have noticed and afterwards.
func (on yourCluster) otherNodeDown(t *testing.T) {
	conn := testkit.Dial(t, on.Server)
	down := 1 + slices.IndexFunc(on.Addrs()[1:], func(addr string) bool {
		return slices.ContainsFunc(on.Server.Cluster().Masters(), func(m redisconn.Target) bool {
			return m.Addr == addr
		})
	})

	replica, err := on.ReplicaOf(t.Context(), down)
	if err == nil { // nobody takes its place
		err = errors.Join(on.Redises[replica].Kill(), on.Redises[down].Kill())
	}
	testkit.Succeeds(t, err)

	for _, state := range []string{"", "cluster_state:fail"} {
		eventually(t, state, func() bool {
			return strings.Contains(conn.ClusterInfo(t.Context()).Val(), state)
		})
		marketsim(t, short("run", "--strategy", "lua", "--mix", "6x6", "--redis", on.url())...).
			exits(t, exitEnvironment).
			says(t, "a master of the cluster at "+on.Addrs()[0]+
				" cannot be reached: cannot reach Redis at "+on.Addrs()[down],
				"is it running, and is this its address?")
	}

	err = errors.Join(
		on.Redises[down].Restart(t.Context()),
		on.Redises[replica].Restart(t.Context()),
		on.AwaitReady(t.Context()),
	)
	testkit.Succeeds(t, err)
	on.clean(t)
}

// nodeDown: a row does not begin where a master is missing, or the node that was named.
// It is the last that is played.
func (on yourCluster) nodeDown(t *testing.T) {
	named := testkit.Must(on.Master(t.Context(), "any"))(t)
	testkit.Succeeds(t, on.Redises[named].Kill())
	marketsim(t, short("run", "--strategy", "lua", "--redis", "redis://"+on.Addrs()[named])...).
		exits(t, exitEnvironment).
		says(t, "cannot reach Redis", "is it running, and is this its address?")
}
