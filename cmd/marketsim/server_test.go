package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// attempt is a run on the user's own server.
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
	attempt(t, "redis://"+refusedAddr(t)).exits(t, exitEnvironment).
		says(t, "cannot reach Redis", "is it running")
	attempt(t, "unix://"+t.TempDir()+"/none.sock").exits(t, exitEnvironment).
		says(t, "the path of its unixsocket")
}

func TestServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	o := attempt(t, "redis://"+l.Addr().String()).exits(t, exitEnvironment).says(t, "did not answer")
	if o.took > patience { // it takes 4 s on a machine that does nothing else
		t.Errorf("silence took %s to be told", o.took)
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
	attempt(t, "rediss://"+newExternal(t).Target.Addr).exits(t, exitEnvironment).
		says(t, "use redis:// instead of rediss://")
}

func TestServerTooOld(t *testing.T) {
	t.Parallel()
	attempt(t, "redis://"+fakeRedis(t, oldRedis)).exits(t, exitEnvironment).
		says(t, "it is Redis 6.0.16, and marketsim needs 6.2 or newer")
}

func TestReadOnlyReplica(t *testing.T) {
	t.Parallel()
	master := testkit.Local(t)
	host, port, _ := net.SplitHostPort(master.Target.Addr)
	replica := newExternal(t, "--replicaof", host+" "+port)
	attempt(t, replica.url("")).exits(t, exitEnvironment).
		says(t, "read-only replica; connect to its master at "+master.Target.Addr)
}

func TestPrefixThatHoldsKeys(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	for _, key := range []string{"mine:run", "mine:users:1", "mine:market:", "mine:of somebody else"} {
		s.conn.Set(t.Context(), key, "x", 0)
		attempt(t, s.url(""), "--prefix", "mine:").exits(t, exitEnvironment).
			says(t, "prefix already holds keys: "+key, "marketsim clean --redis redis://").
			silent(t, "removed at the end")
		s.holds(t, key)
		s.conn.Del(t.Context(), key)
	}
	s.conn.Set(t.Context(), "mine", "a neighbour", 0)
	attempt(t, s.url(""), "--prefix", "mine:").exits(t, exitFine)
	s.holds(t, "mine")
}

// TestCommandsDenied: a run that may not send a command has no row, and names what was
// refused.
func TestCommandsDenied(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	for strategy, commands := range map[string]string{
		"watch": "info scan exists unlink hsetnx hset hincrby exec sadd srem zadd zrem zscore " +
			"zrandmember hget sismember watch unwatch multi sscan zscan hgetall",
		"coarse": "setnx get del",
	} {
		for _, command := range strings.Fields(commands) {
			t.Run(command, func(t *testing.T) {
				user := "without-" + command
				rights := []string{"on", "~*", "&*", "+@all", "-" + command, ">" + secret}
				testkit.Succeeds(t, s.conn.ACLSetUser(t.Context(), user, rights...).Err())

				dir := t.TempDir()
				o := attempt(t, s.url(user+":"+secret),
					"--strategy", strategy, "--prefix", "acl:", "--out", dir)
				o.exits(t, exitEnvironment).says(t, "'"+command+"'").silent(t, "1/1")

				// Without MULTI nothing else can be tried, and the advice names all commands.
				line := "ACL SETUSER " + user + " '~acl:*' '&acl:*' +" + command + "\n"
				if n := strings.Count(o.stderr, line); n != 1 && command != "multi" {
					t.Errorf("the advice is given %d times:\n%s", n, o.stderr)
				}

				hidden(t, secret, o, dir)

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
	o := attempt(t, s.url("guest:"+secret), "--prefix", "mine:").exits(t, exitEnvironment).
		says(t, "ACL SETUSER guest '~mine:*' '&mine:*' ")
	hidden(t, secret, o)
	attempt(t, s.url("guest:"+secret), "--prefix", "it's:").exits(t, exitEnvironment).
		says(t, `ACL SETUSER guest '~it'\''s:*' '&it'\''s:*' `)
	attempt(t, s.url("guest:"+secret), "--prefix", "theirs:").exits(t, exitFine)
}

// TestKeysOfSeveralMarkets: who has several markets needs rights to nothing but the run's
// prefix, which alone is needed to remove them all.
func TestKeysOfSeveralMarkets(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	s.conn.ACLSetUser(t.Context(), "guest", "on", "~mine:*", "&mine:*", "+@all", ">"+secret)
	args := []string{
		"run", "--strategy", "lua,fine:queue", "--mix", "3x3", "--markets", "3",
		"--prefix", "mine:", "--redis", s.url("guest:" + secret),
	}
	marketsim(t, short(args...)...).exits(t, exitFine).says(t, "keys: under mine:, removed at the end")
	s.holds(t)

	c := startChild(t, append(args, "--duration", "10m")...)
	s.trading(t, "mine:{3}:")
	c.kill()
	neighbours := []string{"mine:2:run", "mine:{4}:run"}
	for _, key := range neighbours {
		s.conn.HSet(t.Context(), key, "accounts", 1)
	}
	marketsim(t, short(args...)...).exits(t, exitEnvironment).
		says(t, "prefix already holds keys", "--prefix mine:")
	marketsim(t, "clean", "--prefix", "mine:", "--redis", s.url("")).exits(t, exitFine).
		says(t, " under mine:{2}:\n", " under mine:{3}:\n", " under mine:{1}:\n")
	s.holds(t, neighbours...)
}

// external is a redis-server that stands for the user's own, and asks for no password.
type external struct {
	*backend.Server
	conn *redisconn.Conn // of somebody who may do everything
}

func newExternal(t testing.TB, args ...string) external {
	t.Helper()
	s := testkit.Local(t, args...)
	testkit.Succeeds(t, redisconn.With(t.Context(), s.Target, func(conn *redisconn.Conn) error {
		return conn.ConfigSet(t.Context(), "requirepass", "").Err()
	}))
	s.Target.Password = ""
	return external{s, testkit.Dial(t, s)}
}

// url is how to reach the server, as a user with a password if userinfo is not empty.
func (e external) url(userinfo string) string {
	if userinfo != "" {
		userinfo += "@"
	}
	return "redis://" + userinfo + e.Target.Addr
}

// holds checks that these keys are on the server, and no others.
func (e external) holds(t testing.TB, want ...string) {
	t.Helper()
	got := testkit.Must(e.conn.Keys(t.Context(), "*").Result())(t)
	if len(got) != len(want) {
		t.Errorf("the server holds %q, want %q", got, want)
		return
	}
	if len(want) > 0 {
		if n := e.conn.Exists(t.Context(), want...).Val(); int(n) != len(want) {
			t.Errorf("the server holds %q, want %q", got, want)
		}
	}
}

// trading waits until a run under the prefix is under way, and its first seller
// has earned something: a rehearsal lists one item only, and nothing is sold of
// a stock until it is complete.
func (e external) trading(t testing.TB, prefix string) {
	t.Helper()
	eventually(t, "a run under "+prefix, func() bool {
		funds, err := e.conn.HGet(t.Context(), prefix+"users:1", "funds").Int64()
		return err == nil && funds > load.DefaultFunds &&
			e.conn.ZCard(t.Context(), prefix+"market:").Val() > 3
	})
}

// short makes a row take a tenth of a second.
func short(args ...string) []string {
	return append(args, "--duration", "100ms", "--warmup", "20ms")
}

// withFlags is a command with other values of some flags, each of which is given once.
func withFlags(args []string, flags ...string) []string {
	for i := 0; i < len(flags); i += 2 {
		if at := slices.Index(args, flags[i]); at >= 0 {
			args = slices.Delete(args, at, at+2)
		}
	}
	return append(args, flags...)
}

// fakeRedis answers each command with what answer returns, in Redis's protocol,
// and returns its address.
func fakeRedis(t *testing.T, answer func(args []string) string) string {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)

	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for args, err := readCommand(r); err == nil; args, err = readCommand(r) {
					if _, err := io.WriteString(conn, answer(args)); err != nil {
						return
					}
				}
			})
		}
	})

	t.Cleanup(func() { l.Close(); serving.Wait() })
	return l.Addr().String()
}

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, "*")
	if err != nil {
		return nil, err
	}

	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, "$")
		if err != nil {
			return nil, err
		}

		// A bulk string ends in \r\n.
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind string) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutPrefix(strings.TrimSpace(line), kind)
	if !ok {
		return 0, errors.New("not Redis's protocol")
	}
	return strconv.Atoi(digits)
}

// oldRedis is a server of a version that marketsim does not know how to use.
func oldRedis(args []string) string {
	switch strings.ToLower(args[0]) {
	case "ping":
		return "+PONG\r\n"
	case "auth", "select":
		return "+OK\r\n"
	case "info":
		text := "# Server\r\nredis_version:6.0.16\r\n"
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return fmt.Sprintf("-ERR unknown command `%s`, with args beginning with: `%s`\r\n",
		args[0], strings.Join(args[1:], "`, `"))
}
