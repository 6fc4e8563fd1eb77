// Package testkit gives tests a Redis to run on. Whatever it starts ends with the test.
//
// A test that needs what this machine lacks is skipped, with a sentence that
// says so. Where that must not happen unnoticed, as in CI, the environment
// variable MARKETSIM_REQUIRE turns skips into failures: "all", or a comma
// separated list such as "redis,docker".
package testkit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"
	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
)

// Each runs f as a subtest on miniredis ("embedded") and on a private redis-server
// ("local"). Under the race detector miniredis, which is many times slower there, is left
// out where the other is Required.
func Each(t *testing.T, f func(t *testing.T, s *backend.Server)) {
	if !Raced || !Required("redis") {
		t.Run(string(backend.OriginEmbedded), func(t *testing.T) { f(t, Embedded(t)) })
	}
	t.Run(string(backend.OriginLocal), func(t *testing.T) { f(t, Local(t)) })
}

// OnBest runs f as a subtest on [Best], for what costs too much to run on both. What holds on
// miniredis is seen where there is nothing else, which is a step of .ci/run.
func OnBest(t *testing.T, f func(t *testing.T, s *backend.Server)) {
	s := Best(t)
	t.Run(string(s.Name), func(t *testing.T) { f(t, s) })
}

// Local starts a private redis-server or valkey-server with further arguments. It
// needs "redis", see [Require].
func Local(t testing.TB, args ...string) *backend.Server {
	t.Helper()
	return Start(t, backend.Local{Args: args})
}

// Embedded starts miniredis.
func Embedded(t testing.TB) *backend.Server {
	t.Helper()
	return Start(t, backend.Embedded{})
}

// Best starts a private redis-server, or miniredis where there is none and none is [Required]:
// for what need not run on both.
func Best(t testing.TB) *backend.Server {
	t.Helper()
	if Required("redis") {
		return Local(t)
	}
	return Started[*backend.Server](t, "redis")(backend.Start(t.Context(), "", nil, backend.Local{}, backend.Embedded{}))
}

// Start starts a server for the length of the test, which needs "redis", or "docker"
// for a container, see [Require].
func Start(t testing.TB, starter backend.Starter) *backend.Server {
	t.Helper()
	name := "redis"
	if starter.Name() == backend.OriginContainer {
		name = "docker"
	}
	return Started[*backend.Server](t, name)(starter.Start(t.Context()))
}

// Require ends a test that lacks something: it fails if that is Required, and is
// skipped otherwise, with the reason.
func Require(t testing.TB, name, why string) {
	t.Helper()
	if Required(name) {
		t.Fatalf("MARKETSIM_REQUIRE asks for %s: %s", name, why)
	}
	t.Skipf("needs %s: %s", name, why)
}

// Required reports whether MARKETSIM_REQUIRE, a list separated by commas, names a thing
// or is "all". Names in use are redis, newer (a server with a command that not every one
// has), redis-benchmark, docker, zookeeper, etcd, chromium, signals (the Unix signals
// that pause a process), terminal (a pseudo-terminal), symlinks, proc (Linux's /proc) and
// clients (Redis libraries of other languages, in the versions of docs/clients.md).
func Required(name string) bool {
	required := strings.Split(os.Getenv("MARKETSIM_REQUIRE"), ",")
	return slices.Contains(required, "all") || slices.Contains(required, name)
}

// Long reports whether MARKETSIM_LONG asks for what takes long: as many random operations,
// and as large histories, as are worth a minute.
func Long() bool { return os.Getenv("MARKETSIM_LONG") != "" }

// Dial connects to s. It tries again for as long as a busy machine may take to answer.
func Dial(t testing.TB, s *backend.Server) *redisconn.Conn {
	t.Helper()
	c, err := s.Dial(t.Context())
	deadline := time.Now().Add(answersWithin)
	for errors.Is(err, context.DeadlineExceeded) && time.Now().Before(deadline) {
		c, err = s.Dial(t.Context())
	}
	Succeeds(t, err)
	// A test may have closed it to see what happens.
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Keys returns keys under a prefix that nothing else uses.
func Keys(t testing.TB) market.Keys {
	t.Helper()
	return Must(market.NewKeys("test:{" + rand.Text() + "}:"))(t)
}

// MaxParallel lets n tests of a package run at the same time, unless the flag -parallel
// says otherwise: most only wait.
func MaxParallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// StartJavaQuickly lets the ZooKeeper servers of a package's tests compile themselves with
// the first of Java's two compilers alone: they live for seconds, and the second costs more
// than it gives in that time. What is measured for users runs with both.
func StartJavaQuickly() {
	const options = "JDK_JAVA_OPTIONS" // which java reads, from version 9 on
	if os.Getenv(options) != "" {
		return
	}
	if err := os.Setenv(options, "-XX:TieredStopAtLevel=1"); err != nil {
		panic(err)
	}
}

// init lets a test's heap grow to five times what is in use before it is collected, unless
// GOGC says otherwise. Tests, and the clients that they start of themselves, have small heaps
// and short lives: with Go's default a sixth of their processor time goes into collecting.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// VerifyNoLeaks runs a package's tests, from its TestMain, and fails if they leave
// goroutines behind, but for those in some functions, and the one with which go-redis
// redials a server that has gone: that ends by itself.
func VerifyNoLeaks(m *testing.M, functions ...string) {
	var ignored []goleak.Option
	for _, name := range append(functions, "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial") {
		ignored = append(ignored, goleak.IgnoreAnyFunction(name))
	}

	// Each Find waits for half a second.
	code := ran(m.Run())
	deadline := time.Now().Add(endsWithin)
	for code == 0 && goleak.Find(ignored...) != nil && time.Now().Before(deadline) {
	}
	goleak.VerifyTestMain(code, ignored...)
}

// How long a server may take to answer a test, and goroutines to end after the
// tests, on a busy machine.
const (
	answersWithin = 30 * time.Second
	endsWithin    = 30 * time.Second
)

// ran is the exit code of tests that have run.
type ran int

// Run implements goleak.TestingM.
func (r ran) Run() int { return int(r) }

// Started closes at the end of the test what was started. If it could not be started, the test
// fails; if that is because this machine lacks something, it needs name: see [Require].
func Started[T io.Closer](t testing.TB, name string) func(T, error) T {
	return func(s T, err error) T {
		t.Helper()
		if errors.Is(err, process.ErrUnavailable) {
			Require(t, name, err.Error())
		}
		Succeeds(t, err)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("closing what was started: %v", err)
			}
		})
		return s
	}
}

// A Proxy stands before a Redis server and loses a chosen command or reply, so that a
// client does not know its outcome.
type Proxy struct {
	*wire.Proxy
	server *backend.Server
	lost   *wire.Trap // nil: nothing yet
}

// StartProxy starts a proxy before a server for the length of the test.
func StartProxy(t testing.TB, s *backend.Server) *Proxy {
	t.Helper()
	p := Started[*wire.Proxy](t, "redis")(wire.StartRedis(s.Target.Network, s.Target.Addr, s.Target.TLS))
	return &Proxy{Proxy: p, server: backend.NewServer(s.Name, s.Target.Through(p.Addr()), "proxy of "+s.Detail, nil)}
}

// Server is the server as seen through the proxy.
func (p *Proxy) Server() *backend.Server { return p.server }

// LoseReply loses the reply to the next command of that name, which has been
// executed then, and its connection.
func (p *Proxy) LoseReply(name string) { p.lose(p.Proxy.LoseReply, name) }

// LoseCommand loses the next command of that name, and its connection, before
// it reaches the server.
func (p *Proxy) LoseCommand(name string) { p.lose(p.Proxy.LoseCommand, name) }

// lose takes the place of an earlier loss that has not happened.
func (p *Proxy) lose(set func(wire.Match) *wire.Trap, name string) {
	if p.lost != nil {
		p.lost.Open()
	}
	p.lost = set(wire.Match{Command: name})
}

// Relay starts a proxy before a server, host:port, of any protocol for the
// length of the test.
func Relay(t testing.TB, addr string) *wire.Proxy {
	t.Helper()
	return Started[*wire.Proxy](t, "redis")(wire.Start(addr))
}

// ReadAgain is for fuzzing what reads a stored result: what is not refused is
// written and read again as it was.
func ReadAgain[T any, P interface {
	*T
	Write(io.Writer) error
}](t *testing.T, data []byte, read func(io.Reader) (P, error)) {
	t.Helper()
	res, err := read(bytes.NewReader(data))
	if err != nil { // which people read: it names the file's kind, and no type of Go's
		if !strings.HasPrefix(err.Error(), "read ") || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: the error is %v", data, err)
		}
		return
	}

	var first, second bytes.Buffer
	if err := res.Write(&first); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	again, err := read(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatalf("%q was read and written as\n%s\nwhich is refused: %v", data, first.Bytes(), err)
	}
	if err := again.Write(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("%q: %v; written\n%s\nand then\n%s", data, err, first.Bytes(), second.Bytes())
	}
}

// Within fails unless do takes less than a limit in one of three tries, of processor time
// if not of time: a machine that is busy with something else makes everything late. With
// the race detector on it only runs it.
func Within(t testing.TB, limit time.Duration, name string, do func()) {
	t.Helper()
	var took, used time.Duration
	for range 3 {
		began, before := time.Now(), processorTime(t)
		do()
		took, used = time.Since(began), processorTime(t)-before
		if min(took, used) < limit || Raced {
			return
		}
	}
	t.Errorf("%s took %s, three times, and %s of processor time, and may take %s", name, took, used, limit)
}

// processorTime is how much this process has used.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	self := Must(gopsutil.NewProcess(int32(os.Getpid())))(t)
	times := Must(self.Times())(t)
	return time.Duration((times.User + times.System) * float64(time.Second))
}

// Must returns what came without an error, or ends the test:
// testkit.Must(os.Open(path))(t).
func Must[T any](got T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Succeeds(t, err)
		return got
	}
}

// Succeeds ends the test if there is an error.
func Succeeds(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
