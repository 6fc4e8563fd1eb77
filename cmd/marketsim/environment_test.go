package main

import (
	"io"
	"log"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// attempt is a run on a server of one's own.
func attempt(t testing.TB, url string, args ...string) outcome {
	t.Helper()
	if !slices.Contains(args, "--strategy") {
		args = append(args, "--strategy", "fine")
	}
	o := marketsim(t, short(append([]string{"run", "--mix", "1x1", "--redis", url}, args...)...)...)
	if o.code != exitFine && o.stdout != "" {
		t.Errorf("stdout holds %q", o.stdout)
	}
	return o
}

func TestServerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	o := attempt(t, "redis://"+refusedAddr(t)).exits(t, exitEnvironment).says(t, "cannot reach Redis", "is it running")
	if o.took > time.Second {
		t.Errorf("a refused connection took %s to be told", o.took)
	}
	attempt(t, "unix://"+t.TempDir()+"/none.sock").exits(t, exitEnvironment).says(t, "the path of its unixsocket")
}

func TestServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := attempt(t, "redis://"+l.Addr().String()).exits(t, exitEnvironment).says(t, "did not answer")
	if o.took > 5*time.Second {
		t.Errorf("silence took %s to be told, want 5 s at most", o.took)
	}
}

func TestTLSMismatch(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	addr := secure.Listener.Addr().String()
	attempt(t, "redis://"+addr).exits(t, exitEnvironment).says(t, "rediss://")
	attempt(t, "rediss://"+addr).exits(t, exitEnvironment).says(t, "cannot agree on TLS", "authority")
	attempt(t, "rediss://"+newExternal(t).Target.Addr).exits(t, exitEnvironment).says(t, "use redis:// instead of rediss://")
}

func TestServerTooOld(t *testing.T) {
	t.Parallel()
	attempt(t, "redis://"+fakeRedis(t, oldRedis)).exits(t, exitEnvironment).says(t, "it is Redis 6.0.16, and marketsim needs 6.2 or newer")
}

func TestReadOnlyReplica(t *testing.T) {
	t.Parallel()
	master := backendtest.Local(t)
	host, port, _ := net.SplitHostPort(master.Target.Addr)
	replica := newExternal(t, "--replicaof", host+" "+port)
	attempt(t, replica.url("")).exits(t, exitEnvironment).says(t, "read-only replica; connect to its master at "+master.Target.Addr)
}

func TestPrefixThatHoldsKeys(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	for _, key := range []string{"mine:run", "mine:users:1", "mine:market:", "mine:of somebody else"} {
		s.conn.Set(t.Context(), key, "x", 0)
		attempt(t, s.url(""), "--prefix", "mine:").exits(t, exitEnvironment).
			says(t, "prefix already holds keys: "+key, "clean --prefix mine:")
		s.holds(t, key)
		s.conn.Del(t.Context(), key)
	}
	s.conn.Set(t.Context(), "mine", "a neighbour", 0)
	attempt(t, s.url(""), "--prefix", "mine:").exits(t, exitFine)
	s.holds(t, "mine")
}

func TestCommandsDenied(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	for strategy, commands := range map[string]string{
		"watch": "info scan exists unlink hsetnx hset hincrby exec sadd srem zadd zrem zscore zrandmember hget sismember " +
			"watch unwatch multi sscan zscan hgetall",
		"coarse": "setnx get del",
	} {
		for _, command := range strings.Fields(commands) {
			t.Run(command, func(t *testing.T) {
				user := "without-" + command
				if err := s.conn.ACLSetUser(t.Context(), user, "on", "~*", "&*", "+@all", "-"+command, ">"+secret).Err(); err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				o := attempt(t, s.url(user+":"+secret), "--strategy", strategy, "--prefix", "acl:", "--out", dir)
				o.exits(t, exitEnvironment).says(t, "'"+command+"'").silent(t, "1/1")
				if n := strings.Count(o.stderr, "ACL SETUSER <user> +"+command); n != 1 && command != "exec" {
					t.Errorf("the advice is given %d times:\n%s", n, o.stderr)
				}
				hidden(t, o, dir)
				left := s.conn.Keys(t.Context(), "*").Val()
				if len(left) > 0 {
					t.Errorf("keys are left behind: %q", left)
					s.conn.FlushAll(t.Context())
				}
			})
		}
	}
}

func TestKeysDenied(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	s.conn.ACLSetUser(t.Context(), "guest", "on", "~theirs:*", "+@all", ">"+secret)
	o := attempt(t, s.url("guest:"+secret), "--prefix", "mine:").exits(t, exitEnvironment).says(t, "grant its keys")
	hidden(t, o)
	attempt(t, s.url("guest:"+secret), "--prefix", "theirs:").exits(t, exitFine)
}
