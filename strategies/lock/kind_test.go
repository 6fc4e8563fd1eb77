package lock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestParamsAreRefusedWithASentence(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"fine:set-px:ttl=9ms", "parameter ttl: 9ms is not from 10ms to 24h0m0s"},
		{"fine:set-px+watchdog:ttl=1ms", "parameter ttl: 1ms is not from 10ms to 24h0m0s"},
		{"fine:reentrant:ttl=0s", "parameter ttl: 0s is not from 10ms to 24h0m0s"},
		{"fine:reentrant-local:ttl=5ms", "parameter ttl: 5ms is not from 10ms to 24h0m0s"},
		{"fine:fenced:ttl=-1s", "parameter ttl: -1s is not from 10ms to 24h0m0s"},
		{"fine:getset:ttl=9.9ms", "parameter ttl: 9.9ms is not from 10ms to 24h0m0s"},
		{"fine:set-ex-fixed:ttl=soon", `parameter ttl: "soon" is not a duration such as 500ms or 10s`},
		{"fine:set-px:expiry=ex:ttl=500ms", "expiry=ex counts whole seconds, and ttl is 500ms"},
		{
			"fine:set-px+watchdog:ttl=1500ms:expiry=exat",
			"expiry=exat counts whole seconds, and ttl is 1.5s",
		},
		{"fine:set-px:expiry=never", `parameter expiry: "never" is not one of px, ex, pxat, exat`},
		{"fine:set-ex-fixed:expiry=px", `unknown parameter "expiry"; ` +
			"known: fencing, write, read, after-unknown, " +
			"idempotent, entries, replicas, resend, ttl, poll, backoff, cap, jitter, tries, timeout"},
		{"fine:exists-set:ttl=1s", `unknown parameter "ttl"; ` +
			"known: fencing, write, read, after-unknown, idempotent, " +
			"entries, replicas, resend, lost-reply, poll, backoff, cap, jitter, tries, timeout"},
		{
			"fine:set-px:release=xyz",
			`parameter release: "xyz" is not one of script, watch, delex, delifeq`,
		},
		{"fine:set-px:renew=1s", `unknown parameter "renew"; ` +
			"known: fencing, write, read, after-unknown, idempotent, " +
			"entries, replicas, resend, ttl, expiry, get, release, renew-by, lost-reply, poll, backoff, cap, jitter, tries, " +
			"timeout"},
		{"fine:reentrant-local:renewals=5", `parameter renewals: "5" is not one of 0, 1, 2, 3, 4`},
		{"fine:reentrant-local:renew=1s", "renew=1s is of no use without renewals: add renewals=4"},
		{"fine:reentrant-local:renew-by=xx", "renew-by=xx is of no use without renewals: add renewals=4"},
		{
			"fine:reentrant-local:renewals=4:ttl=30ms:renew=31ms",
			"renew=31ms is too late for a lock that expires after 30ms",
		},
		{"fine:set-px+watchdog:renew=1m", "renew=1m0s is too late for a lock that expires after 10s"},
		{
			"fine:set-px+watchdog:renew=often",
			`parameter renew: "often" is not a duration such as 500ms or 10s`,
		},
		{"fine:set-px+watchdog:renew=1us", "parameter renew: 1µs is not from 1ms to 24h0m0s"},
		{"fine:set-px+dog", `unknown lock modifier "dog"; known: watchdog`},
	} {
		_, err := strategies.Builtin().Parse(c.text)
		if !errors.Is(err, strategies.ErrSpec) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Parse(%q) says\n\t%v\nand not\n\t%s", c.text, err, c.says)
		}
	}
}

func TestParamsHaveACanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"fine:set-px:ttl=10000ms:expiry=px":         "fine:set-px",
		"fine:set-px+watchdog:renew=ttl/3:ttl=2s":   "fine:set-px+watchdog:ttl=2s",
		"fine:set-px+watchdog:renew=500ms":          "fine:set-px+watchdog:renew=500ms",
		"fine:reentrant-local:renewals=0:ttl=15s":   "fine:reentrant-local:ttl=15s",
		"fine:reentrant-local:renewals=4:renew=10s": "fine:reentrant-local:renewals=4:renew=10s",
		"coarse:getset:poll=2ms:ttl=30ms":           "coarse:getset:ttl=30ms:poll=2ms",
	} {
		spec, err := strategies.Builtin().Parse(text)
		if err != nil || spec.String() != want {
			t.Errorf("Parse(%q) = %q, %v; want %q", text, spec, err, want)
		}
	}
}

// A watchdog can be put over the locks that can be renewed, and a sentence says
// that it cannot over the others.
func TestParamsWatchdogGoesOverWhatRenews(t *testing.T) {
	for _, k := range lock.All() {
		spec, err := strategies.Builtin().Parse("coarse:" + k.Name + "+watchdog")
		switch {
		case k.Renews && err != nil:
			t.Error(err)
		case k.Renews:
			w, _ := spec.Lock()
			noticing := w.Promises.NoticesLoss && spec.Promises().NoticesLoss
			if w.Name != k.Name+"+watchdog" || !noticing {
				t.Errorf("%s+watchdog is called %s and promises %+v", k.Name, w.Name, w.Promises)
			}
		case !errors.Is(err, lock.ErrNoRenewal) || !strings.Contains(err.Error(), "cannot be renewed: "+k.Name):
			t.Errorf("%s+watchdog: %v, want %v", k.Name, err, lock.ErrNoRenewal)
		}
	}
}
