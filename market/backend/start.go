package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Starter starts a private server. Its errors are short, fit on one line, and wrap [ErrUnavailable] if this
// machine lacks what it needs.
type Starter interface {
	Name() Kind
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
func Start(ctx context.Context, choice Kind, url *Target, starters ...Starter) (*Server, error) {
	if choice == KindURL || choice == "" && url != nil {
		if url == nil {
			return nil, fmt.Errorf("%w: %q needs a URL, in --redis or REDIS_URL", ErrChoice, KindURL)
		}
		return NewServer(KindURL, *url, "the server", nil), nil
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
	all := []string{string(KindURL)}
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
