package main

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

// describe starts the result with what is about to run, and on which machine.
func (s *session) describe() {
	base := s.config.base
	m := result.Manifest{
		Version: version(), Command: commandLine(s.args), Seed: base.Seed, Started: time.Now().UTC().Truncate(time.Second),
		Config: result.Config{
			DurationSeconds: base.Duration.Seconds(), WarmupSeconds: base.Warmup.Seconds(),
			Funds:   base.Funds,
			Wallets: base.Wallets, Prefix: base.Keys.Prefix(),
			Browsers: base.Browsers,
			Trials:   s.config.trials, Margin: s.config.margin,
			Rates: s.config.open.rates, Arrivals: string(s.config.open.arrivals),
			SLOMS:    inMS(s.config.open.slo),
			Workload: base.Workload,
		},
	}
	if s.config.book {
		m.Config.Reproduces = reference.Tables()
	}
	describeMachine(&m)
	for _, row := range s.config.specs { // as they were asked for
		if name := row.subject().String(); !slices.Contains(m.Config.Strategies, name) {
			m.Config.Strategies = append(m.Config.Strategies, name)
		}
		if mix := row.mix.String(); s.config.sweep == nil && !slices.Contains(m.Config.Mixes, mix) {
			m.Config.Mixes = append(m.Config.Mixes, mix)
		}
	}
	if s.config.sweep != nil {
		m.Config = s.config.sweep.manifested(m.Config)
	}
	s.result = result.Run{Schema: result.Schema, Status: result.Incomplete, Manifest: m, Rows: []result.Row{}}
}

// describeServers adds to the result on which servers it runs.
func (s *session) describeServers(ctx context.Context) error {
	info, err := s.server.Info(ctx)
	if err != nil {
		return err
	}
	m := &s.result.Manifest
	m.Backend, m.Server, m.ServerVersion, m.ServerConfig = string(s.server.Name), info.Product, info.Version, info.Config
	m.Config.Target, m.Config.LockServers = s.server.Target.String(), lockServers(s.locks)
	return nil
}

// describeMachine fills in what the manifest says about this machine. What cannot be found out stays empty.
func describeMachine(m *result.Manifest) {
	m.Go = runtime.Version()
	m.OS = runtime.GOOS + "/" + runtime.GOARCH
	m.CPUs = runtime.NumCPU()
	if info, err := cpu.Info(); err == nil && len(info) > 0 {
		m.CPU = info[0].ModelName
	}
	if kernel, err := host.KernelVersion(); err == nil {
		m.Kernel = kernel
	}
}
