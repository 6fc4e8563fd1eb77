package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsageErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "below") // cannot be made, not even by root
	damaged := filepath.Join(t.TempDir(), faultsFile)
	if err := os.WriteFile(damaged, []byte(`{"schema": 1, "findings": [{"scen`), 0o666); err != nil {
		t.Fatal(err)
	}
	fine := []string{"run", "--strategy", "fine"}
	with := func(args ...string) []string { return append(append([]string(nil), fine...), args...) }
	url := "redis://" + refusedAddr(t)
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"unknown command", []string{"rnu"}, `unknown command "rnu"; did you mean "run"?`},
		{"unknown command far from any", []string{"qqqqqq"}, `unknown command "qqqqqq" (see`},
		{"unknown flag", with("--frobnicate"), "unknown flag: --frobnicate"},
		{"word that is no flag", []string{"run", "fine"}, `takes flags only, and "fine" is none`},
		{"missing strategy", []string{"run"}, "give --strategy with one or more of watch, coarse, fine, fine-wallet, unsafe"},
		{"unknown strategy, names", []string{"run", "--strategy", "wathc"}, "known: watch, coarse, fine, fine-wallet, unsafe"},
		{"unknown strategy, nearest", []string{"run", "--strategy", "wathc"}, `did you mean "watch"?`},
		{"second strategy unknown", []string{"run", "--strategy", "fine,fin-wallet"}, `did you mean "fine-wallet"?`},
		{"empty strategy", []string{"run", "--strategy", "fine,"}, "known: watch"},
		{"unknown lock", []string{"run", "--strategy", "fine:setxn"}, `did you mean "setnx"?`},
		{"lock for watch", []string{"run", "--strategy", "watch:setnx"}, "watch takes no lock"},
		{"unknown lock, libraries", []string{"run", "--strategy", "fine:setxn"}, "redsync, redislock"},
		{"lock name with control characters", []string{"run", "--strategy", "fine:set\x1b[2J"}, "argument 3 holds a control character"},
		{"watchdog over a lock that cannot renew", []string{"run", "--strategy", "fine:setnx+watchdog"}, "cannot be renewed: setnx"},
		{"unknown modifier", []string{"run", "--strategy", "fine:set-px+watchdo"}, `did you mean "watchdog"?`},
		{"TTL below 10 ms", []string{"run", "--strategy", "fine:set-px:ttl=9ms"}, "9ms is too short: at least 10ms"},
		{"TTL that is not whole seconds", []string{"run", "--strategy", "fine:set-px:ttl=1500ms:expiry=ex"}, "counts whole seconds"},
		{"even number of masters", []string{"run", "--strategy", "fine:redlock", "--redlock", "redis://a,redis://b,redis://c,redis://d"}, "an odd number of at least 3"},
		{"too few masters", []string{"run", "--strategy", "fine:redlock", "--redlock", url}, "an odd number of at least 3"},
		{"one master three times", []string{"run", "--strategy", "fine:redlock", "--redlock", url + "," + url + "," + url}, "twice"},
		{"no masters", []string{"run", "--strategy", "fine:redlock", "--redlock", ""}, "--redlock names no server"},
		{"secret in a list", []string{"run", "--strategy", "fine,redis://u:s3cret@h"}, "redis://***@h"},
		{"second line of strategies", []string{"run", "--strategy", "coarse:set-px\nfine:nonexistent"}, "control character"},
		{"funds that overflow", with("--funds", "9223372036854775807"), "--funds 9223372036854775807: at most"},
		{"masters of another kind", []string{"run", "--strategy", "fine:redlock", "--redlock", "http://a,http://b,http://c"}, "--redlock: "},
		{"browsers under an exclusive lock", with("--browsers", "1"), "fine has no lock that can be shared"},
		{"browsers without a lock", []string{"run", "--strategy", "watch", "--browsers", "1"}, "coarse:rw-safe"},
		{"fencing without a lock", []string{"run", "--strategy", "watch", "--fencing"}, "watch takes no lock; coarse does, as in coarse:fenced"},
		{"fencing under a lock without fences", with("--fencing"), "(fenced, zookeeper, etcd), or measure fine:fencing=off,fine:fencing=token without --fencing"},
		{"fencing twice", []string{"run", "--strategy", "fine:fenced:fencing=on", "--fencing"}, "leave fencing=on out"},
		{"fencing of nothing known", []string{"run", "--strategy", "fine:fence", "--fencing"}, `did you mean "fenced"?`},
		{"fencing=on without fences", []string{"run", "--strategy", "fine:fencing=on"}, "(fenced, zookeeper, etcd), or fencing=token"},
		{"unknown parameter", []string{"run", "--strategy", "fine:pol=1ms"}, `did you mean "poll"?`},
		{"bad parameter", []string{"run", "--strategy", "fine:poll=soon"}, "not a duration"},
		{"mix without sellers", with("--mix", "0x5"), `mix "0x5"`},
		{"half a mix", with("--mix", "5x"), `mix "5x"`},
		{"mix of three", with("--mix", "5x5x5"), `mix "5x5x5"`},
		{"negative mix", with("--mix", "-1x5"), `mix "-1x5"`},
		{"no mix", with("--mix", ""), "--mix names no mix"},
		{"mix and sellers", with("--mix", "1x1", "--sellers", "1", "--buyers", "1"), "either --mix or --sellers and --buyers"},
		{"mix and buyers", with("--mix", "1x1", "--buyers", "1"), "either --mix or --sellers and --buyers"},
		{"sellers alone", with("--sellers", "1"), "go together"},
		{"no buyers", with("--sellers", "1", "--buyers", "0"), `mix "1x0"`},
		{"negative duration", with("--duration", "-1s"), "--duration -1s: must be positive"},
		{"no duration", with("--duration", "0s"), "--duration 0s: must be positive"},
		{"duration without unit", with("--duration", "5"), "missing unit"},
		{"negative warm-up", with("--warmup", "-1s"), "--warmup -1s: must not be negative"},
		{"negative funds", with("--funds", "-1"), "must not be negative"},
		{"too many wallets", with("--mix", "5x5,1x1", "--wallets", "2"), "--wallets 2: more than the buyers of mix 1x1"},
		{"glob prefix", with("--prefix", "my*:"), "glob characters"},
		{"prefix without colon", with("--prefix", "mine"), "ends in ':'"},
		{"out below a file", with("--out", below), "--out: "},
		{"out is a file", with("--out", file), "--out: "},
		{"json below a file", with("--json", below), "--json: "},
		{"json is a folder", with("--json", t.TempDir()), "is a folder"},
		{"keep without a URL", with("--keep"), "give --redis URL"},
		{"keep on a private server", with("--keep", "--backend", "local"), "give --redis URL"},
		{"keep several rows", with("--keep", "--mix", "1x1,5x5", "--redis", url), "this run makes 2"},
		{"unknown backend", with("--backend", "cloud"), "use one of url, local, container, embedded"},
		{"url backend without URL", with("--backend", "url"), "needs a URL"},
		{"URL and private backend", with("--backend", "local", "--redis", url), "give one of them"},
		{"URL of another kind", with("--redis", "http://localhost"), "must start with redis://"},
		{"password file without URL", with("--password-file", file), "give --redis URL"},
		{"password file missing", with("--redis", url, "--password-file", below), "--password-file: "},
		{"TLS file without TLS", with("--redis", url, "--cacert", file), "need a rediss:// URL"},
		{"TLS file that is none", with("--redis", "rediss://localhost", "--cacert", file), "no PEM certificate"},
		{"unknown table", []string{"reproduce", "--tables", "6-1,6-9"}, `unknown table "6-9": the book has 6-1, 6-2, 6-3`},
		{"no table", []string{"reproduce", "--tables="}, "names no table"},
		{"reproduce, negative duration", []string{"reproduce", "--duration", "-1s"}, "must be positive"},
		{"reproduce, unwritable out", []string{"reproduce", "--out", below}, "--out: "},
		{"report without a run", []string{"report"}, "accepts 1 arg"},
		{"report of nothing", []string{"report", below}, "below"},
		{"report of another file", []string{"report", file}, file},
		{"report of a folder without a run", []string{"report", t.TempDir()}, "run.json"},
		{"history below a file", with("--history", below), "--history: "},
		{"check of nothing", []string{"check", below}, "no history found"},
		{"check of a folder without a history", []string{"check", t.TempDir()}, "no history.jsonl in"},
		{"check without a folder", []string{"check"}, "accepts 1 arg"},
		{"check without time", []string{"check", below, "--timeout", "0s"}, "--timeout 0s: must be positive"},
		{"unknown format", []string{"report", stored, "--format", "pdf"}, "text, markdown, csv, json"},
		{"unknown scenario", []string{"faults", "--scenario", "puase"}, `did you mean "pause"?; 'marketsim list --scenarios'`},
		{"second scenario unknown", []string{"faults", "--scenario", "pause,x"}, `unknown scenario "x"; known: crash-half-taken`},
		{"no scenario", []string{"faults", "--scenario="}, "--scenario names nothing"},
		{"unknown lock of faults", []string{"faults", "--lock", "set-px,setxn"}, `did you mean "setnx"?; 'marketsim list'`},
		{"unknown strategy of faults", []string{"faults", "--lock", "wathc"}, `did you mean "watch"?`},
		{"unknown parameter of faults", []string{"faults", "--lock", "set-px:expiri=px"}, `did you mean "expiry"?`},
		{"no lock of faults", []string{"faults", "--lock="}, "--lock names nothing"},
		{"faults in an unknown format", []string{"faults", "--format", "csv"}, "want one of text, markdown, json"},
		{"faults, unwritable out", []string{"faults", "--out", below}, "--out: "},
		{"faults on a server", []string{"faults", "--redis", url}, "unknown flag: --redis"},
		{"list of locks and scenarios", []string{"list", "--locks", "--scenarios"}, "either --locks or --scenarios"},
		{"report of damaged faults", []string{"report", damaged}, "read faults: it is cut short; make it anew with 'marketsim faults --out'"},
		{"report of damaged faults in a folder", []string{"report", filepath.Dir(damaged)}, "read faults: it is cut short; make it anew with 'marketsim faults --out'"},
		{"report of faults as csv", []string{"report", storedFaults, "--format", "csv"}, "want one of text, markdown, json"},
		{"clean without prefix", []string{"clean", "--redis", url}, "give --prefix"},
		{"clean without server", []string{"clean", "--prefix", "x:"}, "give --redis URL or REDIS_URL"},
		{"clean everything", []string{"clean", "--prefix", "*:", "--redis", url}, "glob characters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := marketsim(t, c.args...).exits(t, exitUsage).says(t, c.says, "--help')")
			if o.stdout != "" || strings.HasPrefix(o.stderr, "backend:") {
				t.Errorf("a server was started, or stdout was written to:\n%s%s", o.stdout, o.stderr)
			}
		})
	}
}

// A value of REDIS_URL that cannot be used must not stop a run that does not use it.
func TestForcedBackendIgnoresEnvironment(t *testing.T) {
	t.Setenv("REDIS_URL", "nonsense")
	marketsim(t, "run", "--strategy", "fine", "--mix", "1x1").exits(t, exitUsage).says(t, "REDIS_URL: invalid Redis URL")
	marketsim(t, short("run", "--strategy", "fine", "--mix", "1x1", "--backend", "embedded")...).exits(t, exitFine)
}
