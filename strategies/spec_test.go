package strategies_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/strategies"
)

func TestParseGivesTheCanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"watch":                             "watch",
		"watch:timeout=10s":                 "watch",
		"watch:timeout=1500ms":              "watch:timeout=1.5s",
		"watch:list-timeout=1s:timeout=2s":  "watch:timeout=2s:list-timeout=1s",
		"coarse:setnx":                      "coarse",
		"fine:setnx:poll=1000us":            "fine",
		"fine:timeout=50ms:poll=2000us":     "fine:poll=2ms:timeout=50ms",
		"fine-wallet:setnx:timeout=0s":      "fine-wallet:timeout=0s",
		"unsafe":                            "unsafe",
		"coarse:poll=1ms:timeout=0h0m10.0s": "coarse",
		"coarse:fencing=none":               "coarse",
		"fine:set-px:ttl=1s:fencing=token":  "fine:set-px:fencing=token:ttl=1s",
		"fine:fencing=off":                  "fine:fencing=off",
		"fine:write=multi:idempotent=off":   "fine",
		"fine:idempotent=on:fencing=off":    "fine:fencing=off:idempotent=on",
		"fine:fenced+watchdog:fencing=on":   "fine:fenced+watchdog:fencing=on",
	} {
		spec, err := strategies.Builtin().Parse(text)
		if err != nil || spec.String() != want {
			t.Errorf("Parse(%q) = %q, %v; want %q", text, spec, err, want)
		}
	}
}

func TestParseErrorsSayWhatIsWrong(t *testing.T) {
	var locks []string
	for _, k := range strategies.Builtin().Locks {
		locks = append(locks, k.Name)
	}
	known := "known: " + strings.Join(locks, ", ")
	knownStrategies := "known: " + strings.Join(everyStrategy(), ", ")
	fenced := strings.Join(strategies.Builtin().FencedLocks(), ", ")

	for _, c := range []struct{ text, says string }{
		{"wacth", `unknown strategy "wacth"; ` + knownStrategies + `; did you mean "watch"?`},
		{"FINE", `unknown strategy "FINE"; ` + knownStrategies + `; did you mean "fine"?`},
		{"zookeeper", `unknown strategy "zookeeper"; ` + knownStrategies},
		{
			"setpx",
			`unknown strategy "setpx"; ` + knownStrategies + `; set-px is a lock, written fine:set-px`,
		},
		{
			"set-px",
			"set-px is a lock, and a strategy says what it locks: write fine:set-px for a lock per item",
		},
		{"set-px+watchdog:poll=2ms", "write fine:set-px+watchdog:poll=2ms for a lock per item"},
		{"", `unknown strategy ""; ` + knownStrategies},
		{"watch:setnx", "watch takes no lock"},
		{"watch:", "watch takes no lock"},
		{"coarse:setxn", `unknown lock "setxn"; ` + known + `; did you mean "setnx"?`},
		{"coarse:", `unknown lock ""; ` + known},
		{"coarse::poll=1ms", `unknown lock ""; ` + known},
		{"fine:pol=1ms", `unknown parameter "pol"; known: fencing, write, read, after-unknown, ` +
			`idempotent, entries, ` +
			`replicas, resend, lost-reply, poll, backoff, cap, jitter, tries, timeout; ` +
			`did you mean "poll"?`},
		{"unsafe:x=1", `unknown parameter "x": there are none here`},
		{"fine:setnx:setnx", `"setnx" is not of the form key=value`},
		{"fine:poll=1ms:poll=2ms", "parameter poll is given twice"},
		{"fine:poll=soon", `parameter poll: "soon" is not a duration such as 500ms or 10s`},
		{"fine:poll=1us", "parameter poll: 1µs is not from 10µs to 24h0m0s"},
		{"fine:poll=10h", "poll=10h0m0s is longer than an acquisition may take (timeout=10s)"},
		{"fine:fencing=yes", `parameter fencing: "yes" is not one of none, off, on, token`},
		{"watch:fencing=on", `unknown parameter "fencing"; known: ` +
			"timeout, list-timeout, gate, backoff, base, cap, jitter, tries"},
		{"fine-wallet:set-px:fencing=on", "the lock set-px gives its holders no fence to compare: " +
			"take one that does (" +
			fenced + "), or fencing=token, which works with any lock"},
		{
			"fine:set-px:write=pipeline:fencing=off",
			"write=pipeline is for fencing=none: with fencing=off a script writes",
		},
		{
			"fine:set-px:read=one-by-one:fencing=token",
			"without fencing=, write=fused and after-unknown=kill",
		},
		{
			"fine:set-px:read=one-by-one:write=fused",
			"without fencing=, write=fused and after-unknown=kill",
		},
		{
			"fine:set-px:read=one-by-one:after-unknown=kill",
			"without fencing=, write=fused and after-unknown=kill",
		},
		{
			"fine:idempotent=on",
			"idempotent=on is kept by the script that writes: add fencing=off, on or token",
		},
		{
			"coarse:set-px:write=fused:entries=2",
			"is for a lock that its holder can enter again: set-px waits for itself",
		},
		{"fine:set-px+watchdog+watchdog",
			`unknown lock modifier "watchdog+watchdog"; known: watchdog; did you mean "watchdog"?`},
		{
			"fine:set-px+watchdogs",
			`unknown lock modifier "watchdogs"; known: watchdog; did you mean "watchdog"?`,
		},
		{"fine:tries=0", `parameter tries: "0" is not a whole number of at least 1`},
		{"fine:jitter=1.5", `parameter jitter: "1.5" is not a number from 0 to 1`},
		{"fine:cap=1s", "cap bounds a wait that grows: add backoff=exp, full or decorrelated"},
		{"fine:set-px:write=fused:jitter=2", `parameter jitter: "2" is not a number from 0 to 1`},
		{"watch:timeout=-1s", "parameter timeout: -1s is not from 0s to 24h0m0s"},
	} {
		_, err := strategies.Builtin().Parse(c.text)
		if !errors.Is(err, strategies.ErrSpec) {
			t.Errorf("Parse(%q): %v, want %v", c.text, err, strategies.ErrSpec)
			continue
		}
		if !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("Parse(%q) says\n\t%v\nand not\n\t%s", c.text, err, c.says)
		}
	}
}
