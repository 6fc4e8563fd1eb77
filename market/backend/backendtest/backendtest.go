// Package backendtest gives tests a Redis to run on. Whatever it starts ends with the test.
//
// A test that needs what this machine lacks is skipped, with a sentence that says so. Where that must not happen
// unnoticed, as in CI, the environment variable MARKETSIM_REQUIRE turns skips into failures: "all", or a comma
// separated list such as "redis,docker".
package backendtest

import (
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/embedded"
)

// Each runs f as a subtest on miniredis ("embedded") and on a private redis-server ("local").
func Each(t *testing.T, f func(t *testing.T, s *backend.Server)) {
	t.Run(string(backend.KindEmbedded), func(t *testing.T) { f(t, Embedded(t)) })
	t.Run(string(backend.KindLocal), func(t *testing.T) { f(t, Local(t)) })
}

// Local starts a private redis-server or valkey-server with further arguments, for example "--maxmemory", "3mb".
// It needs "redis", see [Require].
func Local(t testing.TB, args ...string) *backend.Server {
	t.Helper()
	return Start(t, backend.Local{Args: args})
}

// Embedded starts miniredis.
func Embedded(t testing.TB) *backend.Server {
	t.Helper()
	return Start(t, embedded.Starter{})
}

// Start starts a server for the length of the test. If the starter is unavailable on this machine the test
// needs "redis", or "docker" for a container, see [Require].
func Start(t testing.TB, starter backend.Starter) *backend.Server {
	t.Helper()
	s, err := starter.Start(t.Context())
	if errors.Is(err, backend.ErrUnavailable) {
		needs := "redis"
		if starter.Name() == backend.KindContainer {
			needs = "docker"
		}
		Require(t, needs, err.Error())
	}
	if err != nil {
		t.Fatalf("starting the %s backend: %v", starter.Name(), err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the %s backend: %v", starter.Name(), err)
		}
	})
	return s
}

// Require ends a test that lacks something: it fails if the thing is Required, and is skipped otherwise; why is the
// sentence to show.
func Require(t testing.TB, name, why string) {
	t.Helper()
	if Required(name) {
		t.Fatalf("MARKETSIM_REQUIRE asks for %s: %s", name, why)
	}
	t.Skipf("needs %s: %s", name, why)
}

// Required reports whether MARKETSIM_REQUIRE, a list separated by commas, names a thing or is "all". Names in use are
// redis, docker, zookeeper and etcd.
func Required(name string) bool {
	required := strings.Split(os.Getenv("MARKETSIM_REQUIRE"), ",")
	return slices.Contains(required, "all") || slices.Contains(required, name)
}

// Dial connects to s.
func Dial(t testing.TB, s *backend.Server) *backend.Conn {
	t.Helper()
	c, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A test may have closed it to see what happens.
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Keys returns keys under a prefix that nothing else uses.
func Keys(t testing.TB) market.Keys {
	t.Helper()
	k, err := market.NewKeys("test:{" + rand.Text() + "}:")
	if err != nil {
		t.Fatal(err)
	}
	return k
}
