package backend

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// Name is that of a backend: where a server came from. Its values are also the names by which a user forces one.
type Name string

// The backends.
const (
	NameURL       Name = "url"       // the user's own, left running
	NameLocal     Name = "local"     // a private process on this machine
	NameContainer Name = "container" // a private container
	NameEmbedded  Name = "embedded"  // miniredis inside this process: not Redis
	NameCluster   Name = "cluster"   // a private Redis Cluster
)

// A Server is a Redis that runs: one process, or a Redis Cluster.
type Server struct {
	Name   Name
	Target Target   // a node's, of a cluster
	Detail string   // what runs: a program's path, an image, ...
	Passed []string // why Start passed over earlier backends, one short line each

	own     *ownProcess // nil unless it is a process of ours
	cluster *Cluster    // nil unless Discover found that it is one
	stop    func() error
}

// NewServer describes a running server to be ended by stop, which is called at most once and may be nil. It is
// for writing a [Starter].
func NewServer(name Name, target Target, detail string, stop func() error) *Server {
	if stop == nil {
		stop = func() error { return nil }
	}
	return &Server{Name: name, Target: target, Detail: detail, stop: sync.OnceValue(stop)}
}

// Discover finds out whether the server is a Redis Cluster. The errors are those of [OpenCluster] and [Dial].
func (s *Server) Discover(ctx context.Context) (err error) {
	if s.Name == NameEmbedded {
		return nil
	}
	conn, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	fields, err := conn.InfoFields(ctx, "cluster")
	if err == nil && fields["cluster_enabled"] == "1" {
		s.cluster, err = OpenCluster(ctx, s.Target)
	}
	return err
}

// Cluster is the Redis Cluster that the server is, if Discover found that; nil: it is none.
func (s *Server) Cluster() *Cluster { return s.cluster }

// Master is where a key lies. Only on a cluster does it matter which key.
func (s *Server) Master(key string) Target {
	if s.cluster != nil {
		return s.cluster.Master(key)
	}
	return s.Target
}

// Describe returns one line for users: where the market runs, and why there.
func (s *Server) Describe() string {
	line := s.Detail
	if s.Name != NameEmbedded {
		line += " at " + s.Target.String()
	}
	if len(s.Passed) > 0 {
		line += " (" + strings.Join(s.Passed, "; ") + ")"
	}
	if s.Name == NameEmbedded {
		line += ": its numbers are not Redis's"
	}
	return line
}

// Dial connects to the server, with the errors of the function [Dial]: to a cluster at the node that was named.
func (s *Server) Dial(ctx context.Context) (*Conn, error) {
	return s.named(Dial(ctx, s.Target))
}

// Dialer returns what connects to the master of a key, on a cluster by [Cluster.Dialer].
func (s *Server) Dialer(key string) func(context.Context) (*Conn, error) {
	if s.cluster == nil {
		return s.Dial
	}
	dial := s.cluster.Dialer(key)
	return func(ctx context.Context) (*Conn, error) { return s.named(dial(ctx)) }
}

func (s *Server) named(conn *Conn, err error) (*Conn, error) {
	if err == nil {
		conn.name = s.Name
	}
	return conn, err
}

// Close ends a server that was started for this run and does nothing to one that was given by URL. The second
// and later calls return what the first did.
func (s *Server) Close() error { return s.stop() }

// Kill ends the server as a crash would: at once, with no time to write or to answer. Close must still be called. The
// error wraps [ErrNotOurs] unless the server is a local process.
func (s *Server) Kill() error {
	if s.own == nil {
		return fmt.Errorf("killing the %s server: %w", s.Name, ErrNotOurs)
	}
	return s.own.current().Kill()
}

// Restart kills the server if it still runs and starts it again at the same address. It finds what it wrote to disk:
// with "--appendonly", "yes" and "--appendfsync", "always" among [Local.Args] that is all it answered, by default
// nothing. The error wraps [ErrNotOurs] unless the server is a local process, and [ErrClosed] after Close.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := s.own.start(ctx, s.ready); err != nil {
		return fmt.Errorf("starting the server at %s again: %w", s.Target.Addr, err)
	}
	return nil
}

// Pause stops the server's process where it is, until Resume. The error wraps [ErrNotOurs] unless the server is a local
// process, and [ErrUnavailable] where the operating system cannot do that.
func (s *Server) Pause() error {
	if s.own == nil {
		return fmt.Errorf("pausing the %s server: %w", s.Name, ErrNotOurs)
	}
	return s.own.current().Pause()
}

// Resume lets a paused server go on.
func (s *Server) Resume() error {
	if s.own == nil {
		return fmt.Errorf("resuming the %s server: %w", s.Name, ErrNotOurs)
	}
	return s.own.current().Resume()
}

// PID returns the process id of a local server, and 0 for any other.
func (s *Server) PID() int {
	if s.own == nil {
		return 0
	}
	return s.own.current().PID()
}

// Info says which server a result was measured on.
type Info struct {
	Product string            // "redis", "valkey" or "miniredis"
	Version string            // of the server; of the module, for miniredis
	Config  map[string]string // settings that matter to the numbers; empty where CONFIG GET is not allowed
}

// Info asks the server what it is. A server that refuses CONFIG GET is no error.
func (s *Server) Info(ctx context.Context) (info Info, err error) {
	if s.Name == NameEmbedded {
		return Info{Product: "miniredis", Version: miniredisVersion(), Config: map[string]string{}}, nil
	}
	conn, err := s.Dial(ctx)
	if err != nil {
		return Info{}, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	fields, err := conn.InfoFields(ctx, "server")
	if err != nil {
		return Info{}, err
	}
	info = Info{Product: "redis", Version: fields["redis_version"], Config: conn.config(ctx)}
	if v := fields["valkey_version"]; v != "" {
		info.Product, info.Version = "valkey", v
	}
	return info, nil
}

// miniredisVersion is the version that was built in, or empty where the build does not know.
func miniredisVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/alicebob/miniredis/v2" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return ""
}

// config asks for one setting at a time, because Redis 6.2 takes no more.
func (c *Conn) config(ctx context.Context) map[string]string {
	config := map[string]string{}
	for _, name := range []string{"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "io-threads"} {
		got, err := c.ConfigGet(ctx, name).Result()
		if err != nil {
			continue // managed servers often deny CONFIG; the result then does not hold it
		}
		if value, ok := got[name]; ok {
			config[name] = value
		}
	}
	return config
}

// InfoFields returns the "name:value" lines of one section of INFO.
func (c *Conn) InfoFields(ctx context.Context, section string) (map[string]string, error) {
	text, err := c.Client.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("asking for INFO %s: %w", section, Explain(err))
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// A Starter starts a private server. Its errors are short, fit on one line, and wrap [ErrUnavailable] if this
// machine lacks what it needs.
type Starter interface {
	Name() Name
	Start(ctx context.Context) (*Server, error)
}

// Start returns the server a run should use.
//
// With choice empty it is the one at url if url is not nil, else the first of the starters that succeeds; the
// reasons of those that did not are kept in [Server.Passed]. With a choice it is that one or an error: "url", or
// a starter's name. A choice wins over a url, which may come from the environment. The error wraps [ErrChoice]
// for an unknown choice, or for "url" without one; [ErrUnavailable] if no starter succeeded; or the context's
// error.
//
// A server at url is not contacted here; Dial says whether it is there.
func Start(ctx context.Context, choice Name, url *Target, starters ...Starter) (*Server, error) {
	if choice == NameURL || choice == "" && url != nil {
		if url == nil {
			return nil, fmt.Errorf("%w: %q needs a URL, in --redis or REDIS_URL", ErrChoice, NameURL)
		}
		return NewServer(NameURL, *url, "the server", nil), nil
	}
	if choice == "" {
		return startFirst(ctx, starters)
	}
	i := slices.IndexFunc(starters, func(s Starter) bool { return s.Name() == choice })
	if i < 0 {
		return nil, fmt.Errorf("%w %q: use one of %s", ErrChoice, choice, strings.Join(names(starters), ", "))
	}
	server, err := starters[i].Start(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting the %s backend: %w", choice, err)
	}
	return server, nil
}

func startFirst(ctx context.Context, starters []Starter) (*Server, error) {
	var passed []string
	var failures []error // the same with their causes, should all fail
	for _, s := range starters {
		server, err := s.Start(ctx)
		if err == nil {
			server.Passed = passed
			return server, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		passed = append(passed, fmt.Sprintf("%s: %s", s.Name(), oneLine(err)))
		failures = append(failures, fmt.Errorf("%s: %w", s.Name(), err))
	}
	return nil, fmt.Errorf("each backend is %w or failed:\n%w", ErrUnavailable, errors.Join(failures...))
}

func names(starters []Starter) []string {
	all := []string{string(NameURL)}
	for _, s := range starters {
		all = append(all, string(s.Name()))
	}
	return all
}

// oneLine shortens an error to what fits beside others.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	const most = 160
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return line
}
