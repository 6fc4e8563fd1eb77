package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// grantedBy are the rules of the first line that tells what to type.
func grantedBy(t *testing.T, o outcome) (rules []any) {
	t.Helper()
	_, text, _ := strings.Cut(o.stderr, "  ACL SETUSER ")
	line, _, _ := strings.Cut(text, "\n")
	for i, word := range strings.Fields(line) {
		if i > 0 {
			rules = append(rules, strings.Trim(word, "'"))
		}
	}
	if len(rules) == 0 {
		t.Fatalf("no line with ACL SETUSER:\n%s", o.stderr)
	}
	return rules
}

// TestAdviceEndsAfterOneRound: a user who may do nothing follows the advice once, and the
// run works; so it does if a lease has to be renewed, and somebody waits for each lock. With
// MARKETSIM_LONG every lock is tried.
func TestAdviceEndsAfterOneRound(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	specs := []string{"fine:set-px+watchdog:ttl=400ms", "fine:redsync+watchdog:ttl=400ms", "fine:set-px:release=watch",
		"fine:set-px:fencing=token", "fine:set-px:fencing=token:idempotent=on", "fine:set-px:write=fused",
		"fine:set-px:after-unknown=kill", "lua:idempotent=on"}

	full := catalogue.Full()
	for _, strategy := range full.Strategies {
		specs = append(specs, strategy.Name)
	}
	for _, kind := range full.Locks {
		if kind.Needs == "" && testkit.Long() {
			specs = append(specs, "fine:"+kind.Name)
		}
	}

	for i, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			user := fmt.Sprintf("guest%d", i)
			grant := func(rules ...any) {
				words := append([]any{"ACL", "SETUSER", user}, rules...)
				testkit.Succeeds(t, s.conn.Do(t.Context(), words...).Err())
			}
			grant("on", ">"+secret)

			hold := "100us" // short, so that a waiter finds the lock free before its time-out
			if strings.Contains(spec, "+watchdog") {
				hold = "200ms" // longer than the third of a lease after which it is renewed
			}
			args := []string{"run", "--strategy", spec, "--mix", "0x3", "--hot", "1", "--hold", hold,
				"--redis", s.url(user + ":" + secret), "--duration", "40ms", "--warmup", "0s"}

			refused := marketsim(t, args...).exits(t, exitEnvironment).silent(t, "1/1", secret)
			grant(grantedBy(t, refused)...)
			o := marketsim(t, args...).says(t, "1/1")
			if o.code != exitFine && o.code != exitViolation { // which the flawed ones come to
				t.Errorf("exit code %d:\n%s", o.code, o.stderr)
			}

			log := fmt.Sprint(s.conn.Do(t.Context(), "ACL", "LOG").Val())
			for _, denied := range regexp.MustCompile(`object:(\S+)`).FindAllStringSubmatch(log, -1) {
				// the first refusal, and what runs do without
				if denied[1] != "ping" && denied[1] != "config|get" {
					t.Errorf("it was refused %s: %s", denied[1], log)
				}
			}
			s.conn.Do(t.Context(), "ACL", "LOG", "RESET")
		})
	}
}

// TestRightsInHelp: the rules that README cites are in help.
func TestRightsInHelp(t *testing.T) {
	t.Parallel()
	joined := strings.Join(strings.Fields(marketsim(t, "--help").exits(t, exitFine).stdout), " ")
	typed := process.ShellLine(strings.Fields(catalogue.Rights)...)
	if !strings.Contains(joined, typed) {
		t.Errorf("not in --help: %s", typed)
	}
}
