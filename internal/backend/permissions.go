package backend

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
)

// A DryRun is a command as it is tried: its words, among which KEY and CHANNEL stand for
// names of the run's own. It is never executed.
type DryRun string

// DryRuns are commands as they are tried.
func DryRuns(commands ...string) []DryRun {
	trials := make([]DryRun, len(commands))
	for i, command := range commands {
		trials[i] = DryRun(command)
	}
	return trials
}

// Command is the command's name, as an ACL spells it: "hget", or "client|kill".
func (t DryRun) Command() string {
	name, _, _ := strings.Cut(string(t), " ")
	return name
}

// words are what is sent.
func (t DryRun) words(key, channel string) []any {
	var words []any
	for i, word := range strings.Fields(string(t)) {
		switch {
		case i == 0:
			for part := range strings.SplitSeq(word, "|") {
				words = append(words, part)
			}
		case word == "KEY":
			words = append(words, key)
		case word == "CHANNEL":
			words = append(words, channel)
		default:
			words = append(words, word)
		}
	}

	return words
}

// RefusedByACL tries commands with a key and a channel, and returns those that the ACL of c's
// user refuses, with the first refusal; nil: it refuses none. Nothing is executed: a
// server looks at the ACL when a command joins a transaction, and the end of its
// connection discards this one. To a user who may not open one, all count as refused,
// because they cannot be tried. c cannot be used afterwards. No trial may be DISCARD, RESET or
// QUIT: a server executes these at once, and the trials behind them, too.
func RefusedByACL(
	ctx context.Context, c *redisconn.Conn, trials []DryRun, key, channel string,
) (refused []DryRun, first error) {
	// On one connection, and in one write, so that a connection that breaks takes all with
	// it. MULTI is tried alone beforehand: without it what follows would be executed.
	conn := c.Client.Conn()
	defer conn.Close()
	opened := conn.Do(ctx, "multi").Err()
	if _, denied := redisconn.Denied(opened); denied {
		return trials, opened
	}
	if opened == nil {
		opened = conn.Do(ctx, "exec").Err() // of nothing
	}
	if _, denied := redisconn.Denied(opened); opened != nil && !denied {
		return nil, fmt.Errorf("open a transaction: %w", opened)
	}

	answers := make([]*redis.Cmd, len(trials)) // nil: it was tried above
	_, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "multi") // where EXEC was refused one is open, and this is an error
		for i, trial := range trials {
			if name := trial.Command(); name != "multi" && name != "exec" { // EXEC would end this one
				answers[i] = p.Do(ctx, trial.words(key, channel)...)
			}
		}
		return nil
	})
	if redisconn.ConnectionBroken(err) {
		return nil, fmt.Errorf("try commands in a transaction: %w", err)
	}

	for i, trial := range trials {
		var answer error
		switch {
		case answers[i] != nil:
			answer = answers[i].Err()
		case trial.Command() == "exec":
			answer = opened
		}
		if _, denied := redisconn.Denied(answer); !denied {
			continue
		}
		refused = append(refused, trial)
		if first == nil {
			first = answer
		}
	}
	return refused, first
}
