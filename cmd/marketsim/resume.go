package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

// How a sweep that was interrupted is gone on with: what is stored of it says all, but for where servers are.

// again are the flags of this command line that a resumed sweep needs: where the servers of locks are, and the server's
// kind. The rest is stored, and the market's server is for serverConfig to name.
func (f sweepFlags) again(flags *pflag.FlagSet) string {
	var words []string
	flags.Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "redlock", "zookeeper", "etcd":
			value := strings.Trim(flag.Value.String(), "[]")
			words = append(words, "--"+flag.Name, quote(value))
		}
	})
	return strings.Join(words, " ")
}

// onward is the command that goes on with a sweep, to be pasted; empty if nothing of it is stored.
func (c sessionConfig) onward() string {
	if c.sweep == nil || c.sweep.dir == "" {
		return ""
	}
	command := "marketsim sweep --resume " + quote(c.sweep.dir)
	if c.server.again != "" {
		command = strings.Replace(c.server.again, "marketsim clean --prefix %s", command, 1)
	}
	if c.sweep.again != "" {
		command += " " + c.sweep.again
	}
	return command
}

// goOn measures what is missing of a stored sweep.
func (f sweepFlags) goOn(p *program, cmd *cobra.Command) error {
	if err := onlyResumed(cmd.Flags()); err != nil {
		return err
	}
	path := filepath.Join(f.resume, sweepFile)
	if !exists(path) {
		return usageError{fmt.Errorf("--resume: %s holds no %s", f.resume, sweepFile)}
	}
	earlier, err := readRun(path)
	if err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	if len(earlier.Manifest.Config.Axes) == 0 || earlier.Planned() < 6 || earlier.Manifest.Config.Margin == nil {
		return usageError{fmt.Errorf("--resume: %s is no sweep", path)}
	}
	if len(earlier.Rounds()) == earlier.Planned() {
		fmt.Fprintf(p.stderr, "%s is complete: all %s are there\n", path, english.Plural(earlier.Planned(), "round", ""))
		return f.out.show(p.stdout, p.stderr, report.Run(earlier))
	}
	config, err := f.resumed(earlier, cmd.Flags())
	if err != nil {
		return err
	}
	return p.measure(cmd.Context(), config)
}

// onlyResumed refuses flags that a sweep has stored.
func onlyResumed(flags *pflag.FlagSet) (err error) {
	may := []string{
		"resume", "redis", "password-file", "cacert", "cert", "key", "sni", "backend", "redlock", "zookeeper", "etcd", "json",
		"format",
	}
	flags.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(may, flag.Name) && err == nil {
			err = usageError{fmt.Errorf("--%s does not go with --resume: a sweep goes on as it began", flag.Name)}
		}
	})
	return err
}

// resumed is the session that goes on with a sweep.
func (f sweepFlags) resumed(earlier *result.Run, flags *pflag.FlagSet) (sessionConfig, error) {
	was := earlier.Manifest.Config
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	f.duration, f.warmup = seconds(was.DurationSeconds), seconds(was.WarmupSeconds)
	f.trials, f.seed, f.strategies = was.Trials, earlier.Manifest.Seed, was.Strategies
	if !strings.HasPrefix(was.Prefix, drawnPrefix) {
		f.prefix = was.Prefix
	}
	if url, _ := f.server.source(); url == "" && f.server.choice == "" && slices.Contains(private(), earlier.Manifest.Backend) {
		f.server.choice = earlier.Manifest.Backend
	}
	specs, err := f.specs()
	if err != nil {
		return sessionConfig{}, err
	}
	swept := &sweepConfig{
		axes: was.Axes, clients: was.Clients, workload: was.Workload, dir: f.resume, again: f.again(flags), earlier: earlier,
	}
	rows, err := swept.rows(specs)
	if err != nil {
		return sessionConfig{}, err
	}
	c, err := f.sessionFlags.config(func(int) error { return nil })
	if err != nil {
		return sessionConfig{}, err
	}
	c.specs, c.sweep, c.margin = rows, swept, was.Margin
	c.base.Funds, c.base.Wallets = was.Funds, was.Wallets
	c.out.dir, c.out.force = f.resume, true
	c.locks, err = f.locks.config(rows)
	return c, err
}

// measuredBefore reports whether a round is there already.
func (c sessionConfig) measuredBefore(round int) bool {
	if c.sweep == nil || c.sweep.earlier == nil {
		return false
	}
	return slices.ContainsFunc(c.sweep.earlier.Rounds(), func(rows []result.Row) bool { return rows[0].Trial == round })
}

// roundsLeft is how many rounds are to be measured.
func (c sessionConfig) roundsLeft() int {
	left := 0
	for round := 1; round <= max(1, c.trials); round++ {
		if !c.measuredBefore(round) {
			left++
		}
	}
	return left
}

// takeUp begins the result with the rounds that were measured before.
func (s *session) takeUp() {
	if s.config.sweep == nil || s.config.sweep.earlier == nil {
		return
	}
	earlier := s.config.sweep.earlier
	for _, rows := range earlier.Rounds() {
		s.result.Rows = append(s.result.Rows, rows...)
	}
	if cut := len(earlier.Rows) - len(s.result.Rows); cut > 0 {
		fmt.Fprintf(s.stderr, "the round that was cut short after %s is measured anew\n", english.Plural(cut, "row", ""))
	}
}

// sameMachine refuses to go on with a sweep where something is not as it was in its first part, and otherwise goes on
// with the manifest of that.
func (s *session) sameMachine() error {
	if s.config.sweep == nil || s.config.sweep.earlier == nil {
		return nil
	}
	earlier := s.config.sweep.earlier.Manifest
	var changed []string
	for _, d := range compare.Differences(earlier, s.result.Manifest) {
		changed = append(changed, fmt.Sprintf("%s was %s and is %s", d.What, known(d.Old), known(d.New)))
	}
	if len(changed) > 0 {
		return usageError{fmt.Errorf("--resume: the sweep in %s began elsewhere: %s. Medians over both parts would be true of neither: "+
			"go on where it began, or measure a new sweep", s.config.sweep.dir, strings.Join(changed, "; "))}
	}
	fmt.Fprintln(s.stderr, "machine, server and settings are those of the first part")
	s.result.Manifest = earlier
	return nil
}

// known is a setting, or that it is not known.
func known(text string) string {
	if strings.TrimSpace(text) == "" {
		return "unknown"
	}
	return text
}

// tellOnward says how an unfinished sweep is gone on with.
func (s *session) tellOnward(status result.Status) {
	if s.config.sweep == nil || status == result.Complete {
		return
	}
	if command := s.config.onward(); command != "" && exists(filepath.Join(s.config.sweep.dir, sweepFile)) {
		fmt.Fprintf(s.stderr, "go on with: %s\n", command)
	} else if command == "" {
		fmt.Fprintln(s.stderr, "nothing of it is stored, so it cannot be gone on with: give --out next time")
	}
}
