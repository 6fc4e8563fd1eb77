// Package backend says where a market runs.
//
// [Start] chooses a [Server]: the user's own by URL, else the first of a list of starters
// that can start one: a private process ([Local]), a container (package container), or
// miniredis inside this process ([Embedded]). [Preflight] says before the load
// whether it will do.
package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
)

// An Origin is where a server came from. Its values are also the
// names by which a user forces one.
type Origin string

// The backends.
const (
	OriginURL       Origin = "url"       // the user's own, left running
	OriginLocal     Origin = "local"     // a private process on this machine
	OriginContainer Origin = "container" // a private container
	OriginEmbedded  Origin = "embedded"  // miniredis inside this process: not Redis
	OriginCluster   Origin = "cluster"   // a private Redis Cluster
)

// A Server is a Redis that runs: one process, or a Redis Cluster.
type Server struct {
	Name   Origin
	Target redisconn.Target // a node's, of a cluster
	Detail string           // what runs: a program's path, an image, ...
	Passed []string         // why Start passed over earlier backends, one short line each

	*process.Process // nil unless it is a local process

	cluster *redisconn.Cluster // nil unless Discover found that it is one
	stop    func() error
}

// NewServer describes a running server to be ended by stop, which is called at
// most once and may be nil.
func NewServer(name Origin, target redisconn.Target, detail string, stop func() error) *Server {
	if stop == nil {
		stop = func() error { return nil }
	}
	return &Server{Name: name, Target: target, Detail: detail, stop: sync.OnceValue(stop)}
}

// Discover finds out whether the server is a Redis Cluster. The errors are those of
// [redisconn.OpenCluster], [redisconn.Dialer.Dial] and [redisconn.Conn.InfoFields].
func (s *Server) Discover(ctx context.Context) error {
	if s.Name == OriginEmbedded {
		return nil
	}
	return redisconn.With(ctx, s.Target, func(conn *redisconn.Conn) error {
		fields, err := conn.InfoFields(ctx, "cluster")
		if err == nil && fields["cluster_enabled"] == "1" {
			s.cluster, err = redisconn.OpenCluster(ctx, s.Target)
		}
		return err
	})
}

// Cluster is the Redis Cluster that the server is, if Discover found that; nil: it is none.
func (s *Server) Cluster() *redisconn.Cluster { return s.cluster }

// Master is where a key lies. Only on a cluster does it matter which key.
func (s *Server) Master(key string) redisconn.Target {
	if s.cluster != nil {
		return s.cluster.Master(key)
	}
	return s.Target
}

// Describe returns one line for users: where the market runs, and why there.
func (s *Server) Describe() string {
	line := s.Detail
	switch s.Name {
	case OriginEmbedded:
	case OriginURL:
		line += " at " + s.Target.String()
	default: // that it has a password is known
		line += " at " + s.Target.WithoutPassword()
	}

	if len(s.Passed) > 0 {
		line += " (" + strings.Join(s.Passed, "; ") + ")"
	}
	if s.Name == OriginEmbedded {
		line += ": its numbers are not Redis's"
	}
	return line
}

// Dial connects to the server, with the errors of [redisconn.Dialer.Dial]: to a
// cluster at the node that was named.
func (s *Server) Dial(ctx context.Context) (*redisconn.Conn, error) {
	return redisconn.To(s.Target).Dial(ctx)
}

// Dialer connects to the master of a key, on a cluster by [redisconn.Cluster.Dialer].
func (s *Server) Dialer(key string) redisconn.Dialer {
	if s.cluster == nil {
		return redisconn.To(s.Target)
	}
	return s.cluster.Dialer(key)
}

// Close ends a server that was started for this run and does nothing to one
// that was given by URL.
func (s *Server) Close() error { return s.stop() }

// Info says which server a result was measured on.
type Info struct {
	Product string // "redis", "valkey" or "miniredis"
	Version string // of the server; of the module, for miniredis
	// Settings that matter to the numbers; empty where CONFIG GET is not allowed.
	Config map[string]string
}

var settings = []string{"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "io-threads"}

// Info asks the server what it is. A server that refuses CONFIG GET is no error.
func (s *Server) Info(ctx context.Context) (info Info, err error) {
	if s.Name == OriginEmbedded {
		version := strings.TrimPrefix(Modules()["github.com/alicebob/miniredis/v2"], "v")
		return Info{Product: "miniredis", Version: version, Config: map[string]string{}}, nil
	}

	err = redisconn.With(ctx, s.Target, func(conn *redisconn.Conn) error {
		fields, err := conn.InfoFields(ctx, "server")
		info = Info{Product: "redis", Version: fields["redis_version"], Config: map[string]string{}}
		if v := fields["valkey_version"]; v != "" {
			info.Product, info.Version = "valkey", v
		}
		for _, name := range settings { // one at a time, because Redis 6.2 takes no more
			maps.Copy(info.Config, conn.ConfigGet(ctx, name).Val())
		}
		return err
	})
	return info, err
}

// Modules are the versions of the modules that were built in, by their paths; none
// where the build does not know.
func Modules() map[string]string {
	versions := map[string]string{}
	if build, known := debug.ReadBuildInfo(); known {
		for _, m := range build.Deps {
			versions[m.Path] = m.Version
		}
	}
	return versions
}

// Preflight checks that a market can live on the server at the other end: Redis 6.2 or
// newer (or Valkey, which reports the version of Redis it is compatible with), done
// with loading, and not a replica that refuses writes. The error wraps
// [redisconn.ErrUnsuitable], or says which command the user may not run. Miniredis has nothing
// to check, and does not pass.
func Preflight(ctx context.Context, c *redisconn.Conn) error {
	is, err := c.InfoFields(ctx, "default")
	if err != nil {
		return err
	}

	var major, minor int
	// One that cannot be read is too old.
	_, _ = fmt.Sscanf(is["redis_version"], "%d.%d", &major, &minor)
	switch {
	case major < 6 || major == 6 && minor < 2:
		return fmt.Errorf("%w: it is Redis %s, and marketsim needs 6.2 or newer",
			redisconn.ErrUnsuitable, is["redis_version"])
	case is["loading"] == "1":
		return fmt.Errorf("%w: it still loads its data; try again when it is done", redisconn.ErrUnsuitable)
	case is["role"] == "slave" && is["slave_read_only"] != "0":
		return fmt.Errorf("%w: it is a read-only replica; connect to its master at %s:%s",
			redisconn.ErrUnsuitable, is["master_host"], is["master_port"])
	}
	return nil
}

// ErrChoice is returned by [Start].
var ErrChoice = errors.New("unknown backend")

// A Starter starts a private server. Its errors are short, and wrap [process.ErrUnavailable] if
// this machine lacks something.
type Starter interface {
	Name() Origin
	Start(ctx context.Context) (*Server, error)
}

// Start returns the server a run should use. With choice empty it is the one at
// url, which is not contacted here, or if that is nil the first of the starters
// that succeeds; the reasons of those that did not are kept in [Server.Passed].
// With a choice, "url" or a starter's name, it is that one or an error, even if
// url comes from the environment.
func Start(ctx context.Context, choice Origin, url *redisconn.Target, starters ...Starter) (*Server, error) {
	if choice == OriginURL || choice == "" && url != nil {
		if url == nil {
			return nil, fmt.Errorf("%w: %q needs a URL, in --redis or REDIS_URL", ErrChoice, OriginURL)
		}
		return NewServer(OriginURL, *url, "the server", nil), nil
	}

	if choice != "" {
		named := slices.IndexFunc(starters, func(s Starter) bool { return s.Name() == choice })
		if named < 0 {
			names := string(OriginURL)
			for _, s := range starters {
				names += ", " + string(s.Name())
			}
			return nil, fmt.Errorf("%w %q: use one of %s", ErrChoice, choice, names)
		}
		starters = starters[named : named+1]
	}

	var failures []error
	for _, s := range starters {
		server, err := s.Start(ctx)
		if err == nil {
			for _, passed := range failures {
				line, _, _ := strings.Cut(passed.Error(), "\n")
				server.Passed = append(server.Passed, fmt.Sprintf("%.160s", line)) // what fits beside others
			}
			return server, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failures = append(failures, fmt.Errorf("%s: %w", s.Name(), err))
	}

	return nil, fmt.Errorf("no server could be started:\n%w", errors.Join(failures...))
}

// Open returns the server at a URL, found fit for a market, or where that is empty a private
// one: a process or, where there is no redis-server, miniredis. After an error there is
// nothing to close.
func Open(ctx context.Context, url string) (*Server, error) {
	if url == "" {
		return Start(ctx, "", nil, Local{}, Embedded{})
	}

	target, err := redisconn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	server, err := Start(ctx, OriginURL, &target)
	if err == nil {
		err = server.Discover(ctx)
	}
	if err == nil {
		err = redisconn.With(ctx, server.Target, func(conn *redisconn.Conn) error { return Preflight(ctx, conn) })
	}
	return server, err
}
