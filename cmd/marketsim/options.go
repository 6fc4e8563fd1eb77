package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market"
)

// sessionFlags are those of every command that measures.
type sessionFlags struct {
	server           serverFlags
	out              outputs
	duration, warmup time.Duration
	seed             uint64
	prefix           string
	lockServers      bench.LockServers // for the manifest
	rough            *chaosFlags       // nil unless faults are to strike
	historyRoot      string            // empty: no history is recorded
	histories        []string          // the folders in it, one a row; nil: none
}

func (f *sessionFlags) add(cmd *cobra.Command) {
	f.server.addBackend(cmd)
	f.out.add(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&f.duration, "duration", bench.DefaultDuration, "measured time of a row")
	flags.DurationVar(&f.warmup, "warmup", bench.DefaultWarmup, "time before that, not counted")
	flags.Uint64Var(&f.seed, "seed", bench.DefaultSeed, "seed of prices and of the order in which listings are tried")
	flags.StringVar(&f.prefix, "prefix", "", `prefix of every key, ending in ":" (default marketsim:{<random>}:)`)
}

// longest bounds the times that may be asked for: a year.
const longest = 365 * 24 * time.Hour

// precheck finds the mistakes that can be found before any server is started.
func (f *sessionFlags) precheck() error {
	if err := f.check(); err != nil {
		return err
	}
	if _, err := f.keys(); err != nil {
		return err
	}
	if _, err := f.server.target(); err != nil {
		return err
	}
	return f.out.prepare()
}

// check finds bad durations.
func (f *sessionFlags) check() error {
	switch {
	case f.duration > longest || f.warmup > longest:
		return usageError{fmt.Errorf("--duration and --warmup take at most %s", longest)}
	case f.duration <= 0:
		return usageError{fmt.Errorf("--duration %s: must be positive", f.duration)}
	case f.warmup < 0:
		return usageError{fmt.Errorf("--warmup %s: must not be negative", f.warmup)}
	}
	return nil
}

// keys are those under the prefix that was asked for, or under a random one.
func (f *sessionFlags) keys() (market.Keys, error) {
	if f.prefix != "" {
		return market.NewKeys(f.prefix)
	}
	var id [4]byte
	rand.Read(id[:])
	return market.NewKeys("marketsim:{" + hex.EncodeToString(id[:]) + "}:")
}
