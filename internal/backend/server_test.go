package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// fakeStarter succeeds if err is nil.
type fakeStarter struct {
	name backend.Origin
	err  error
}

func (f fakeStarter) Name() backend.Origin { return f.name }

func (f fakeStarter) Start(context.Context) (*backend.Server, error) {
	if f.err != nil {
		return nil, f.err
	}
	return backend.NewServer(f.name, redisconn.Target{Network: "tcp", Addr: "here:1"},
		"a "+string(f.name), nil), nil
}

// What was chosen is used, or nothing is. Without a choice the URL comes first, and then
// each starter in turn. No description shows a password.
func TestStart(t *testing.T) {
	url := testkit.Must(redisconn.ParseURL("redis://bob:SECRET@there"))(t)
	missing := fmt.Errorf("no redis-server in PATH: %w\nmore", process.ErrUnavailable)
	works, fails := fakeStarter{backend.OriginLocal, nil}, fakeStarter{backend.OriginLocal, missing}
	embedded := fakeStarter{backend.OriginEmbedded, nil}

	for _, tc := range []struct {
		name     string
		choice   backend.Origin
		url      *redisconn.Target
		starters []backend.Starter
		is       error
		says     string // the description, or part of the error
	}{
		{"url first", "", &url, []backend.Starter{works}, nil,
			"the server at redis://bob:xxxxx@there:6379"},
		{"else the first starter", "", nil, []backend.Starter{works, embedded}, nil,
			"a local at redis://here:1"},
		{"else the next", "", nil, []backend.Starter{fails, embedded}, nil,
			"a embedded (local: no redis-server in PATH: not available): its numbers are not Redis's"},
		{"none", "", nil, []backend.Starter{fails}, process.ErrUnavailable,
			"local: no redis-server in PATH"},
		{"forced", backend.OriginEmbedded, &url, []backend.Starter{works, embedded}, nil,
			"a embedded: its numbers are not Redis's"},
		{"forced but missing", backend.OriginLocal, nil, []backend.Starter{fails, embedded},
			process.ErrUnavailable, "no server could be started"},
		{"forced url", backend.OriginURL, &url, []backend.Starter{works}, nil, "there:6379"},
		{"forced url without one", backend.OriginURL, nil, []backend.Starter{works},
			backend.ErrChoice, "--redis"},
		{"unknown", "cloud", nil, []backend.Starter{works, embedded}, backend.ErrChoice,
			`"cloud": use one of url, local, embedded`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := backend.Start(t.Context(), tc.choice, tc.url, tc.starters...)
			if !errors.Is(err, tc.is) {
				t.Fatalf("got %v, want %v", err, tc.is)
			}

			said := fmt.Sprint(err)
			if err == nil {
				said = s.Describe()
			}
			if !strings.Contains(said, tc.says) || strings.Contains(said, "SECRET") {
				t.Errorf("it says %q, want %q", said, tc.says)
			}
		})
	}
}

func TestStartIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cancelled := fakeStarter{backend.OriginLocal, ctx.Err()}
	next := fakeStarter{backend.OriginEmbedded, nil}
	_, err := backend.Start(ctx, "", nil, cancelled, next)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that a cancelled start does not go on to the next backend", err)
	}
}
