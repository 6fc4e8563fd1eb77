package backend

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
)

// Kind says where a server came from. Its values are also the names by which a user forces one.
type Kind string

// The kinds of server.
const (
	KindURL       Kind = "url"       // the user's own, left running
	KindLocal     Kind = "local"     // a private process on this machine
	KindContainer Kind = "container" // a private container
	KindEmbedded  Kind = "embedded"  // miniredis inside this process: not Redis
)

// A Server is a Redis that runs.
type Server struct {
	Kind   Kind
	Target Target
	Detail string   // what runs: a program's path, an image, ...
	Passed []string // why Start passed over earlier backends, one short line each

	process *process // nil unless it is a process of ours
	stop    func() error
}

// NewServer describes a running server to be ended by stop, which is called at most once and may be nil. It is
// for writing a [Starter].
func NewServer(kind Kind, target Target, detail string, stop func() error) *Server {
	if stop == nil {
		stop = func() error { return nil }
	}
	return &Server{Kind: kind, Target: target, Detail: detail, stop: sync.OnceValue(stop)}
}

// Describe returns one line that tells a user where the market runs and why there.
func (s *Server) Describe() string {
	line := s.Detail
	if s.Kind != KindEmbedded {
		line += " at " + s.Target.String()
	}
	if len(s.Passed) > 0 {
		line += " (" + strings.Join(s.Passed, "; ") + ")"
	}
	if s.Kind == KindEmbedded {
		line += ": its numbers are not Redis's"
	}
	return line
}

// Dial connects to the server, with the errors of the function [Dial].
func (s *Server) Dial(ctx context.Context) (*Conn, error) {
	conn, err := Dial(ctx, s.Target)
	if err != nil {
		return nil, err
	}
	conn.kind = s.Kind
	return conn, nil
}

// Close ends a server that was started for this run and does nothing to one that was given by URL. The second
// and later calls return what the first did.
func (s *Server) Close() error { return s.stop() }

// Kill ends the server as a crash would: at once and without a word. Close must still be called. The error wraps
// [ErrNotOurs] unless the server is a local process.
func (s *Server) Kill() error {
	if s.process == nil {
		return fmt.Errorf("killing the %s server: %w", s.Kind, ErrNotOurs)
	}
	return s.process.kill()
}

// PID returns the process id of a local server, and 0 for any other.
func (s *Server) PID() int {
	if s.process == nil {
		return 0
	}
	return s.process.pid()
}

// Info says which server a result was measured on.
type Info struct {
	Product string            // "redis", "valkey" or "miniredis"
	Version string            // of the server; of the module, for miniredis
	Config  map[string]string // settings that matter to the numbers; empty where CONFIG GET is not allowed
}

// Info asks the server what it is. A server that refuses CONFIG GET is no error.
func (s *Server) Info(ctx context.Context) (info Info, err error) {
	if s.Kind == KindEmbedded {
		return Info{Product: "miniredis", Version: miniredisVersion(), Config: map[string]string{}}, nil
	}
	conn, err := s.Dial(ctx)
	if err != nil {
		return Info{}, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	fields, err := infoFields(ctx, conn, "server")
	if err != nil {
		return Info{}, err
	}
	info = Info{Product: "redis", Version: fields["redis_version"], Config: conn.config(ctx)}
	if v := fields["valkey_version"]; v != "" {
		info.Product, info.Version = "valkey", v
	}
	return info, nil
}

// miniredisVersion is the version that was built in, or empty where the build does not tell.
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
			continue // managed servers often deny CONFIG; the result is then silent about it
		}
		if value, ok := got[name]; ok {
			config[name] = value
		}
	}
	return config
}

// infoFields returns the "name:value" lines of one section of INFO.
func infoFields(ctx context.Context, c *Conn, section string) (map[string]string, error) {
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
