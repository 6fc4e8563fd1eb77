package main

import (
	"context"
	"slices"
	"time"

	"github.com/marketsim/marketsim/bench"
)

// describe starts the result with what is about to be measured, where and how.
func (s *session) describe(ctx context.Context, args, tables []string) error {
	info, err := s.server.Info(ctx)
	if err != nil {
		return err
	}
	m := bench.Manifest{
		Version: version(), Backend: string(s.server.Kind),
		Server: info.Product, ServerVersion: info.Version, ServerConfig: info.Config,
		Command: commandLine(args), Seed: s.base.Seed, Started: time.Now().UTC().Truncate(time.Second),
		Config: bench.RunConfig{
			DurationSeconds: s.base.Duration.Seconds(), WarmupSeconds: s.base.Warmup.Seconds(), Funds: s.base.Funds,
			Wallets: s.base.Wallets, Prefix: s.base.Keys.Prefix(), Target: s.server.Target.String(), Reproduces: tables,
			Browsers: s.base.Browsers, LockServers: s.flags.lockServers,
		},
	}
	m.Describe()
	for _, c := range s.rows {
		if name := c.Subject.String(); !slices.Contains(m.Config.Strategies, name) {
			m.Config.Strategies = append(m.Config.Strategies, name)
		}
		if mix := c.Mix.String(); !slices.Contains(m.Config.Mixes, mix) {
			m.Config.Mixes = append(m.Config.Mixes, mix)
		}
	}
	s.result = bench.Result{Schema: bench.Schema, Status: bench.Incomplete, Manifest: m, Rows: []bench.Row{}}
	return nil
}
