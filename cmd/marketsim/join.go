package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/join"
	"github.com/marketsim/marketsim/strategies/lock"
)

// joinFlags are the flags of a run that several load machines make together.
type joinFlags struct {
	id      string
	of      int
	timeout time.Duration
}

func (f *joinFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.id, "join", "", "`name` of a run that this load machine makes together with others, who give the same")
	flags.IntVar(&f.of, "of", 0, "with --join, how many load machines there are")
	flags.DurationVar(&f.timeout, "join-wait", time.Minute, "with --join, how long to wait for the others at the start")
}

// joinConfig says with whom a session runs its rows.
type joinConfig struct {
	joinFlags
	settings map[string]string
}

// machines are the load machines of a session.
func (c sessionConfig) machines() int {
	if c.join == nil {
		return 1
	}
	return c.join.of
}

// prefix is that of the keys of the run.
func (f joinFlags) prefix() string { return drawnPrefix + f.id + "}:" }

// check refuses values that no run has, and flags that do not go with --join.
func (f joinFlags) check(given func(flag string) bool) error {
	switch {
	case f.id == "" && (given("of") || given("join-wait")):
		return usageError{errors.New("--of and --join-wait go with --join, which names the run")}
	case f.id == "":
		return nil
	case !join.ValidID(f.id):
		return usageError{fmt.Errorf("--join %q: it takes a name of 1 to 32 letters, digits, - and _", quotable(f.id))}
	case !given("of"):
		return usageError{fmt.Errorf("--join %s: give --of with the number of load machines, too", f.id)}
	case f.of < 2 || f.of > join.Most:
		return usageError{fmt.Errorf("--of %d: --join takes 2 to %d load machines", f.of, join.Most)}
	case f.timeout <= 0 || f.timeout > longest:
		return usageError{fmt.Errorf("--join-wait %s: it must be positive, and %s at most", f.timeout, longest)}
	}
	for _, without := range []struct{ flag, why string }{
		{"prefix", "the keys of the run are under " + f.prefix()},
		{"warmup-max", "all load machines count the same time, so the warm-up takes exactly --warmup"},
		{"history", "its times would come from the clocks of several machines, whose order nobody knows"},
		{"keep", "the load machine that reports removes the market when it has audited it"},
		{"hot", "who paid what for an item that is sold again cannot be settled when a load machine is lost"},
		{"stock", "in a large market sums are kept in place of each item, and a load machine that is lost cannot be settled"},
		{"accounts", "in a large market sums are kept in place of each item, and a load machine that is lost cannot be settled"},
		{"markets", "a load machine trades on one market so far"},
		{"rate", "a schedule of orders is drawn for one process"},
		{"chaos", "its faults strike servers and clients of one machine"},
		{"chaos-plan", "its faults strike servers and clients of one machine"},
	} {
		if given(without.flag) {
			return usageError{fmt.Errorf("--%s does not go with --join: %s", without.flag, without.why)}
		}
	}
	return nil
}

// checkServers refuses private servers: every load machine would have its own.
func (f joinFlags) checkServers(server serverFlags, locks lockConfig) error {
	if f.id == "" {
		return nil
	}
	if url, _ := server.source(); url == "" {
		return usageError{errors.New("--join needs a server that all load machines reach: give --redis URL or REDIS_URL")}
	}
	for _, need := range locks.needs {
		own := map[lock.Need]int{
			lock.NeedsMasters: len(locks.own.Masters), lock.NeedsZooKeeper: len(locks.own.ZooKeeper), lock.NeedsEtcd: len(locks.own.Etcd),
		}
		if own[need] == 0 {
			return usageError{fmt.Errorf("--join: each load machine would start servers of its own for a lock: give --%s with those "+
				"that all of them reach", need)}
		}
	}
	return nil
}

// joined is the session with the others that the flags name. What they all have to agree on are its settings.
func (f runFlags) joined(c sessionConfig) sessionConfig {
	if f.join.id == "" {
		return c
	}
	c.base.WarmupMax, c.freshPrefix = 0, false
	var rows []string
	for _, s := range c.specs {
		rows = append(rows, s.String())
	}
	c.join = &joinConfig{joinFlags: f.join, settings: map[string]string{
		"marketsim": version(), "the list of strategies and mixes": strings.Join(rows, ", "), "--of": strconv.Itoa(f.join.of),
		"--duration": f.duration.String(), "--warmup": f.warmup.String(), "--trials": strconv.Itoa(f.trials),
		"--seed": strconv.FormatUint(f.seed, 10), "--funds": strconv.FormatInt(f.funds, 10),
		"--wallets": strconv.Itoa(f.wallets), "--browsers": strconv.Itoa(f.browsers),
	}}
	return c
}

// meet joins the other load machines, and waits until all are there.
func (s *session) meet(ctx context.Context) error {
	c := s.config.join
	if c == nil {
		return nil
	}
	keys := s.config.base.Keys
	member, err := join.Join(ctx, join.Config{
		ID: c.id, Of: c.of, Settings: c.settings, Keys: keys, Dial: s.server.Dialer(keys.Prefix()),
	})
	if err != nil {
		return err
	}
	s.member = member
	fmt.Fprintf(s.stderr, "joined %s as load machine %d of %d; waiting for all for %s at most\n", c.id, member.Index()+1, c.of,
		c.timeout)
	if err := member.Gather(ctx, c.timeout); err != nil {
		return err
	}
	joined := bench.NewJoined(member)
	s.driver, s.joined = measuring(joined.Run), joined
	for i := range s.rows {
		s.rows[i] = joined.Share(s.rows[i])
	}
	return nil
}

// first reports whether this process does what has to be done once: it is alone, or the first of several.
func (s *session) first() bool { return s.member == nil || s.member.Index() == 0 }

// reports reports whether this process shows and stores the result.
func (s *session) reports() bool {
	return s.joined == nil || s.joined.Reporter() == s.member.Index()
}

// tellWhoReports says so where it is another load machine.
func (s *session) tellWhoReports() {
	if who := s.joined.Reporter(); who >= 0 {
		fmt.Fprintf(s.stderr, "load machine %d of %d reports\n", who+1, s.config.join.of)
	} else {
		fmt.Fprintln(s.stderr, "another load machine reports, without this one")
	}
}

// leave ends this machine's part in a run of several. The others are told when it ends before its time.
func (s *session) leave(ctx context.Context, failure error) error {
	if s.member == nil {
		return nil
	}
	afterwards, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	switch {
	case ctx.Err() != nil:
		_ = s.member.Stop(afterwards, join.Interrupted, "")
	case failure != nil:
		_ = s.member.Stop(afterwards, join.Failed, failure.Error())
	}
	err := s.member.Leave(afterwards)
	if why := s.member.Why(); why != nil && why.Cause == join.Cut {
		return nil // the others end it, and what failed has said so
	}
	return err
}

// leaveTimeout bounds how long a load machine waits until the others have left, too.
const leaveTimeout = 2 * join.DefaultSilence
