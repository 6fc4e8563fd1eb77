package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// TestUsageErrors: a mistake in the command line ends with the code of usage,
// names the flag and what it takes, and nothing is started. Which values a row may
// have is tested in package load.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	damaged := filepath.Join(t.TempDir(), faultsFile)
	odd := filepath.Join(t.TempDir(), "odd.json")
	for path, text := range map[string]string{
		file:    "",
		damaged: `{"schema": 1, "findings": [{"scen`,
		odd:     `{"schema": 2, "rows": [{"bought": "many"}]}`,
	} {
		testkit.Succeeds(t, os.WriteFile(path, []byte(text), 0o666))
	}

	below := filepath.Join(file, "below") // cannot be made, not even by root
	run, url := storedRun(t), "redis://"+refusedAddr(t)

	with := func(args ...string) []string {
		return append([]string{"run", "--strategy", "fine"}, args...)
	}
	sweep := func(args ...string) []string {
		return append([]string{"sweep", "--strategy", "fine,lua"}, args...)
	}
	fenced := strings.Join(catalogue.Full().FencedLocks(), ", ")

	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"rnu"}, `unknown command "rnu"; did you mean "run"?`},
		{[]string{"watch"}, `unknown command "watch"; 'marketsim list watch' tells what watch is`},
		{[]string{"redis-py"}, `'marketsim list redis-py' tells`},
		{[]string{"no"}, `unknown command "no"; 'marketsim --help' names them`},
		{[]string{"help", "rnu"}, `unknown command "rnu"; did you mean "run"?`},
		{[]string{"help", "run", "nope"}, `help takes one command, and "nope" is beside run`},
		{[]string{"reproduce", "--as", "jedis"}, `--as "jedis": give redis-in-action or jedis-2017`},
		{[]string{"reproduce", "fine"}, `reproduce takes flags only, and "fine" is none`},
		{with("--frobnicate"), "unknown flag: --frobnicate"},
		{with("-redis", "redis://a"), "did you mean --redis?"},
		{with("--mixes", "5x5"), "unknown flag: --mixes; did you mean --mix?"},
		{[]string{"run"}, "which strategies? give 1 SPEC or more, as in 'marketsim run watch fine'"},
		{[]string{"run", "wathc"}, `did you mean "watch"?`},
		{[]string{"run", "fine,"}, `unknown strategy ""`},
		{[]string{"run", "fine", "--strategy", "set-px"}, "write fine:set-px"},
		{[]string{"run", "set-px"},
			"set-px is a lock, and a strategy says what it locks: write fine:set-px"},
		{[]string{"run", "redis-py"},
			"fine:set-px:lost-reply=kept (redis-py Lock); 'marketsim list redis-py' tells more"},
		{[]string{"run", "fine:redis-py"}, "scheme: set-px:lost-reply=kept (redis-py Lock)"},
		{[]string{"explore", "pause"},
			"pause is a scenario: give it as in marketsim faults --scenario pause"},
		{[]string{"sweep", "set-px", "--axis", "clients=1,2"}, "write fine:set-px"},
		{[]string{"run", "--strategy", "wathc"}, `did you mean "watch"?`},
		{[]string{"run", "--strategy", "fine,fin-wallet"}, `did you mean "fine-wallet"?`},
		{[]string{"run", "--strategy", "fine,"}, "--strategy is empty, or has an empty element"},
		{[]string{"run", "--strategy", "fine:setxn"}, `did you mean "setnx"?`},
		{[]string{"run", "--strategy", "watch:setnx"}, "watch takes no lock"},
		{[]string{"run", "--strategy", "fine:set\x1b[2J"}, `set\x1b[2J`},
		{[]string{"run", "--strategy", "fine:fencing=on"}, "(" + fenced + "), or fencing=token"},
		{
			[]string{"run", "--strategy", "fine:redlock",
				"--redlock", "redis://a,redis://b,redis://c,redis://d"},
			"an odd number of at least 3",
		},
		{[]string{"run", "--strategy", "fine:redlock", "--redlock", url + "," + url + "," + url},
			"twice"},
		{[]string{"run", "--strategy", "fine:redlock", "--redlock", "http://a,http://b,http://c"},
			"--redlock: "},
		{with("--mix", "5x"), `--mix: mix "5x": want SELLERSxBUYERS, such as 5x1`},
		{with("--mix", "0x5"), "--mix: "},
		{with("--mix", "9999x1"), "--mix: "},
		{with("--mix", "1x1,1x1"), "fine 1x1 is asked for twice"},
		{with("--mix", "5x5,1x1", "--wallets", "2"), "--wallets: 2 for 1 buyers"},
		{with("--funds", "-1"), "--funds: "},
		{with("--stock", "-1"), "--stock: "},
		{with("--stock", "20", "--hot", "1"), "--stock: beside hot items"},
		{with("--hot", "1", "--rate", "1k"), "--rate: with hot items"},
		{with("--hot", "1", "--mix", "5x5"), "--mix: "},
		{with("--hold", "-1ms"), "--hold: "},
		{with("--hold", "1"), `--hold "1": want a time with its unit, such as 500us, 10ms or 2s`},
		{with("--hold", "1ns"), "--hold: 1ns: want 0, or 100µs to 10s"},
		{with("--rtt", "1.001s"), "--rtt: 1.001s: want 0, or 100µs to 1s"},
		{[]string{"run", "--strategy", "fine:zookeeper", "--rtt", "1ms"}, "--rtt: "},
		{with("--markets", "2000"), "--markets: 2000: each needs workers"},
		{with("--markets", "-1"), "--markets: -1, with places for 1: want 2 or more"},
		{with("--mix", "5x2", "--markets", "3"),
			"--mix: 2 buyers for 3 markets: each needs one at least"},
		{with("--markets", "2", "--history", below), "--history: want one market"},
		{sweep("--axis", "markets=1,2", "--markets", "2"),
			"--markets and --axis markets=... set the same"},
		{sweep("--axis", "markets=1,6"), "fine 5x5 markets=6: mix: 5 buyers for 6 markets"},
		{
			with("--rate", "0"),
			`--rate "0": want orders a second, such as 500, 2.5k or 1M; without --rate the buyers set the rate`,
		},
		{with("--rate", "2M"), "--rate: 2,000,000 orders/s: want more than 0 and at most 1,000,000"},
		{with("--rate", "1k,1000"), "fine 5x5 at 1000/s is asked for twice"},
		{with("--slo", "10ms"), "--slo: it must be a positive time, and is for orders at a rate"},
		{with("--slo-fails", "--rate", "1k"), "--slo-fails: after which time is an order late?"},
		{with("--duration", "0s"), "--duration: "},
		{with("--warmup", "-1s"), "--warmup: "},
		{with("--trials", "5"), "--trials 5: give 1, or 6 to 100000: fewer rounds have no 95% interval"},
		{with("--trials", "nine"), `--trials "nine": want a whole number, such as 3`},
		{with("--trials", "99999999999999999999"),
			`--trials "99999999999999999999": the number is too large`},
		{with("--funds", "1.5"), `--funds "1.5": want a whole number, such as 3`},
		{with("--seed", "-1"), `--seed "-1": want a whole number from 0, such as 3`},
		{with("--quiet=maybe"), `--quiet "maybe": it stands alone, or is --quiet=true or --quiet=false`},
		{with("--mix", `5x5"`), "--mix: want values separated by commas, without double quotes"},
		{with("--prefix", "my*:"), "glob characters"},
		{with("--prefix="), "--prefix is empty"},
		{with("--redis", ""), "--redis is empty"},
		{with("--redis", "http://localhost"), "must start with redis://"},
		{with("--redis", "redis://u:SECRET@host/x"), "of the form redis://host[:port][/db], rediss://"},
		{
			[]string{"run", "fine:zookeeper", "--zookeeper", "foo"},
			`--zookeeper "foo": want host:port, such as 127.0.0.1:2181`,
		},
		{[]string{"run", "fine:etcd", "--etcd", "http://foo:1"}, `--etcd "http://foo:1": want host:port`},
		{with("--redis", "127.0.0.1:7403"),
			"--redis: invalid Redis URL: it must start with redis://, rediss:// (TLS) or " +
				"unix://: type redis://127.0.0.1:7403"},
		{with("--redis", "bob:SECRET@127.0.0.1:7403"), "unix://: type redis:// in front of it"},
		{with("--redis", "myserver"), "unix://: type redis:// in front of it"},
		{with("--redis", "rediss://localhost", "--cert", file), "must be given together"},
		{with("--redis", "rediss://localhost", "--cacert", file), "no PEM certificate"},
		{with("--redis", url, "--cacert", file), "need a rediss:// URL"},
		{with("--redis", url, "--password-file", below), "--password-file: "},
		{with("--password-file", file), "give --redis URL"},
		{with("--backend", "cloud"), "use one of url, local, container, embedded"},
		{with("--backend", "url"), "needs a URL"},
		{with("--backend", "local", "--redis", url), "give one of them"},
		{with("--keep"), "give --redis URL"},
		{with("--keep", "--mix", "1x1,5x5", "--redis", url), "one mix and one trial"},
		{with("--history", below), "--history: "},
		{with("--out", below), "--out: "},
		{with("--out", "-", "--format", "json"),
			"--out: - is no folder: the result is on stdout without it"},
		{with("--out", filepath.Dir(run)), "is there already: name another folder, or give --force"},
		{with("--format", "pdf"),
			`--format: unknown format "pdf"; known: text, markdown, csv, json, gobench`},
		{[]string{"reproduce", "--rate", "1k"}, "unknown flag: --rate"},
		{[]string{"reproduce", "--trials", "3"}, "--trials 3"},
		{[]string{"compare", "fine"},
			"which strategies? give 2 SPECs or more, as in 'marketsim compare watch fine'"},
		{[]string{"compare", "fine", "fien"}, `did you mean "fine"?`},
		{
			[]string{"compare", "fine", "watch", "--trials", "6"},
			"--trials 6: verdicts on 2 pairs take 7 rounds or more", // fine twice
		},
		{
			[]string{"compare", "fine", "watch", "--margin", "nan%"},
			`--margin "nan%": it takes a percentage below 100%, such as 5%`,
		},
		{[]string{"compare", "fine", "fine:etcd", "--rtt", "1ms"}, "--rtt: "},
		{sweep(), "--axis NAME=VALUES is missing"},
		{
			sweep("--axis", "client=1,2"),
			`unknown axis "client"; known: clients, hot, hold, rtt, markets; did you mean "clients"?`,
		},
		{with("--exec", "a,b=true"), `--exec "a,b=true": want NAME=COMMAND`},
		{sweep("--axis", "clients=2,1"), "--axis: "},
		{sweep("--axis", "cores=1"), "cores"},
		{sweep("--axis", "clients=1", "--mix", "3x3"), "--mix and --axis clients=... set the same"},
		{sweep("--axis", "hot=1", "--hot", "3"), "--hot and --axis hot=... set the same"},
		{sweep("--axis", "hot=1", "--mix", "0x3,0x4"), "a sweep takes one mix"},
		{sweep("--axis", "clients=1,1000"), "fine 1000x1000: mix: "},
		{[]string{"report"}, "0 arguments are given: type marketsim report DIR|FILE..."},
		{[]string{"report", below}, "below"},
		{[]string{"report", t.TempDir()}, "holds no run.json or faults.json"},
		{[]string{"report", file}, "it is empty; make it again with 'marketsim run --out DIR'"},
		{[]string{"report", odd}, "rows.bought is a JSON string, which is the wrong type"},
		{[]string{"report", run, damaged}, damaged + ": read faults: it is cut short"},
		{[]string{"report", "/dev/zero"}, "/dev/zero is not a file"},
		{[]string{"report", run, "-o", below}, "-o: "},
		{[]string{"report", run, "-o", t.TempDir()}, "-o: "},
		{[]string{"report", run, "--figure", "thruput"}, `did you mean "throughput"?`},
		{[]string{"report", run, run, "-o", "x.svg"}, "these are 2: name one of them"},
		{[]string{"report", run, "--lock", "fine:setnx"},
			"--lock: there are no findings and no schedules of fine:setnx"},
		{[]string{"report", storedFaults, "--lock", "set-px,redsnyc"}, `did you mean "redsync"?`},
		{[]string{"report", storedFaults, "--lock", "pause"}, "no findings and no schedules of pause"},
		{[]string{"report", storedFaults, "--lock", "set-px:foo=1"}, `unknown parameter "foo"`},
		{[]string{"report", storedFaults, "--lock", "set-px", "--format", "json"},
			"--format and --lock exclude each other: give one of them"},
		{[]string{"report", storedFaults, "--format", "csv"}, "csv is for runs"},
		{[]string{"report", run, run, "--format", "json"}, "json is one result, and these are 2"},
		{[]string{"check"}, "0 arguments are given: type marketsim check DIR"},
		{[]string{"check", t.TempDir()}, "no history.jsonl in"},
		{[]string{"check", ""}, "check what? the name of the folder is empty"},
		{[]string{"check", below, "--timeout", "0s"}, "--timeout 0s: must be positive"},
		{[]string{"faults", "--scenario", "puase"},
			`did you mean "pause"?; 'marketsim list --scenarios'`},
		{[]string{"faults", "--lock", "set-px,setxn"}, `did you mean "setnx"?; 'marketsim list'`},
		{[]string{"faults", "setxn"}, `did you mean "setnx"?; 'marketsim list'`},
		{[]string{"faults", "--scenario", "set-px"},
			"is a lock or a strategy: give it as in marketsim faults set-px"},
		{[]string{"faults", "pause"},
			"pause is a scenario: give it as in marketsim faults --scenario pause"},
		{[]string{"faults", "--lock", "Laravel"},
			"set-px:lost-reply=kept (Laravel Cache::lock); setnx (Laravel Cache::lock without seconds)"},
		{[]string{"report", storedFaults, "--lock", "redis-py"},
			"set-px:lost-reply=kept (redis-py Lock)"},
		{[]string{"faults", "--out", below}, "--out: "},
		{[]string{"faults", "--redis", url}, "unknown flag: --redis"},
		{[]string{"list", "setpx"}, `library is named "setpx"; did you mean "set-px"? (see`},
		{[]string{"list", "zzz"},
			`library is named "zzz"; 'marketsim list' shows strategies and locks, `},
		{[]string{"list", ""}, `library is named ""`},
		{[]string{"list", "redis-pyy"}, `did you mean "redis-py"?`},
		{[]string{"list", "--locks", "--scenarios"}, "--locks and --scenarios exclude each other"},
		{[]string{"list", "set-px", "--locks"}, "either a name, or"},
		{[]string{"clean", "--redis", url}, "--prefix PREFIX is missing"},
		{[]string{"clean", "--prefix", "x:"}, "give --redis URL or REDIS_URL"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			o := marketsim(t, c.args...).exits(t, exitUsage).says(t, c.says, "--help')")
			if o.stdout != "" || strings.Contains("\n"+o.stderr, "\nbackend:") {
				t.Errorf("a server was started, or stdout was written to:\n%s%s", o.stdout, o.stderr)
			}
		})
	}
}

// A value of REDIS_URL that cannot be used must not stop a run that does not use it.
func TestForcedBackendIgnoresEnvironment(t *testing.T) {
	t.Setenv("REDIS_URL", "nonsense")
	marketsim(t, "run", "--strategy", "fine", "--mix", "1x1").exits(t, exitUsage).
		says(t, "REDIS_URL: invalid Redis URL")
	marketsim(t, short("run", "--strategy", "fine", "--mix", "1x1", "--backend", "embedded")...).
		exits(t, exitFine)
}
