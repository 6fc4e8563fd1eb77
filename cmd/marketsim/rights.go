package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// rights are those that a command needs from the ACL of the user's server.
type rights struct {
	target *redisconn.Target // nil: a private server, which refuses nothing
	keys   market.Keys
	trials []backend.DryRun // every command that may be sent
}

func (p *plan) rights() rights {
	commands := catalogue.Commands(slices.Collect(maps.Values(p.specs))...)
	return rights{target: p.server.target, keys: p.options.Keys, trials: backend.DryRuns(commands...)}
}

// A rightsError is a refusal by the user's ACL, with the rules that are missing.
type rightsError struct {
	refusal error
	advice  string
}

// Error leaves out what the refusal itself may advise, which is about one command.
func (e *rightsError) Error() string {
	text := e.refusal.Error()
	if reply, is := errors.AsType[redis.Error](e.refusal); is {
		step := strings.TrimPrefix(redisconn.Explain(reply).Error(), reply.Error())
		text = strings.Replace(text, step, "", 1)
	}
	return text + "; " + e.advice
}

func (e *rightsError) Unwrap() error { return e.refusal }

// check tries every command, and returns an error with all the rules that are missing.
func (r rights) check(ctx context.Context, dialer redisconn.Dialer) error {
	if r.target == nil {
		return nil
	}
	conn, err := dialer.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	refused, err := r.refused(ctx, conn)
	if len(refused) == 0 {
		return err // nil, or why the commands could not be tried
	}
	return &rightsError{refusal: err, advice: r.advice(refused)}
}

// explain adds to a refusal by the ACL all the rules that are missing, and leaves other
// errors alone.
func (r rights) explain(ctx context.Context, err error) error {
	command, denied := redisconn.Denied(err)
	if !denied || r.target == nil {
		return err
	}
	if _, explained := errors.AsType[*rightsError](err); explained {
		return err
	}
	known := func(t backend.DryRun) bool { return t.Command() == command }
	if command != "" && !slices.ContainsFunc(r.trials, known) { // a cluster's, or a script's
		r.trials = append(slices.Clone(r.trials), backend.DryRun(command))
	}

	refused := r.trials // if they cannot be tried
	// What it returns says no more than the refusal that there is.
	_ = redisconn.With(ctx, *r.target, func(conn *redisconn.Conn) error {
		some, err := r.refused(ctx, conn)
		if len(some) > 0 {
			refused = some
		}
		return err
	})
	return &rightsError{refusal: err, advice: r.advice(refused)}
}

func (r rights) refused(ctx context.Context, conn *redisconn.Conn) ([]backend.DryRun, error) {
	key := r.keys.Lock("rehearsal")
	return backend.RefusedByACL(ctx, conn, r.trials, key, key+":channel")
}

// advice is what to type to get the rights for these commands, and for all strategies.
func (r rights) advice(refused []backend.DryRun) string {
	who := "<user>" // where a name stands alone in the URL it may be a password
	switch {
	case r.target.Username != "" && r.target.Password != "":
		who = process.ShellLine(r.target.Username)
	case r.target.Username == "":
		who = "default"
	}

	own := "marketsim:" // which all prefixes that are drawn begin with
	if !drawnPrefixes.MatchString(r.keys.Prefix()) {
		own = r.keys.Prefix()
	}

	var rules []string
	for _, trial := range refused {
		rules = append(rules, "+"+trial.Command())
	}
	line := fmt.Sprintf("  ACL SETUSER %s %s ", who, process.ShellLine("~"+own+"*", "&"+own+"*"))
	all := strings.Fields(catalogue.Rights)
	return "grant all that is missing for this with\n" + line + process.ShellLine(rules...) +
		"\nor, for every strategy and lock that needs one server, with\n" + line + process.ShellLine(all...)
}
