package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/strategies/catalogue"
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
	odd := filepath.Join(t.TempDir(), "odd.json")
	if err := os.WriteFile(odd, []byte(`{"schema": 1, "rows": [{"bought": "many"}]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "folder.svg")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	fine := []string{"run", "--strategy", "fine"}
	with := func(args ...string) []string { return append(append([]string(nil), fine...), args...) }
	url := "redis://" + refusedAddr(t)
	known, fenced := strings.Join(names(), ", "), strings.Join(catalogue.Full().FencedLocks(), ", ")
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"unknown command", []string{"rnu"}, `unknown command "rnu"; did you mean "run"?`},
		{"unknown command far from any", []string{"qqqqqq"}, `unknown command "qqqqqq" (see`},
		{"unknown flag", with("--frobnicate"), "unknown flag: --frobnicate"},
		{"word that is no flag", []string{"run", "fine"}, `takes flags only, and "fine" is none`},
		{"missing strategy", []string{"run"}, "give --strategy with one or more of " + known},
		{"unknown strategy, names", []string{"run", "--strategy", "wathc"}, "known: " + known},
		{"unknown strategy, nearest", []string{"run", "--strategy", "wathc"}, `did you mean "watch"?`},
		{"second strategy unknown", []string{"run", "--strategy", "fine,fin-wallet"}, `did you mean "fine-wallet"?`},
		{"empty strategy", []string{"run", "--strategy", "fine,"}, "--strategy has an empty element: fine,"},
		{"unknown lock", []string{"run", "--strategy", "fine:setxn"}, `did you mean "setnx"?`},
		{"lock for watch", []string{"run", "--strategy", "watch:setnx"}, "watch takes no lock"},
		{"hot stock", with("--stock", "20", "--hot", "1"), "what circulates is all that there is"},
		{"no markets", with("--markets", "0"), "--markets 0: want 1 to 1000"},
		{"markets, too many", with("--markets", "1001"), "--markets 1001: want 1 to 1000"},
		{"markets, more than workers", with("--mix", "5x2", "--markets", "3"), "mix 5x2: each of 3 markets needs a seller and a buyer"},
		{"markets, more than hot items", with("--hot", "1", "--markets", "2"), "1 hot items: each of 2 markets needs one"},
		{"markets, more than wallets", with("--wallets", "1", "--markets", "2"), "--wallets 1: each of 2 markets needs one"},
		{"markets with a history", with("--markets", "2", "--history", below), "--history records one market"},
		{"markets to keep", with("--markets", "2", "--keep", "--redis", url), "--keep leaves one market"},
		{"axis of markets, more than workers", []string{"sweep", "--strategy", "fine", "--clients", "2", "--axis", "markets=1,2,3"},
			"mix 2x2: each of 3 markets needs a seller and a buyer"},
		{"markets twice", []string{"sweep", "--strategy", "fine", "--markets", "2", "--axis", "markets=1,2"}, "--markets and --axis markets"},
		{"negative stock", with("--stock", "-1"), "--stock -1: want 0 to 1000000 items"},
		{"unknown lock, libraries", []string{"run", "--strategy", "fine:setxn"}, "redsync, redislock"},
		{"lock name with control characters", []string{"run", "--strategy", "fine:set\x1b[2J"}, "argument 3 holds a control character"},
		{"watchdog over a lock that cannot renew", []string{"run", "--strategy", "fine:setnx+watchdog"}, "cannot be renewed: setnx"},
		{"unknown modifier", []string{"run", "--strategy", "fine:set-px+watchdo"}, `did you mean "watchdog"?`},
		{"TTL below 10 ms", []string{"run", "--strategy", "fine:set-px:ttl=9ms"}, "9ms is too short: at least 10ms"},
		{"TTL that is not whole seconds", []string{"run", "--strategy", "fine:set-px:ttl=1500ms:expiry=ex"}, "counts whole seconds"},
		{"even number of masters", []string{"run", "--strategy", "fine:redlock", "--redlock", "redis://a,redis://b,redis://c,redis://d"}, "an odd number of at least 3"},
		{"too few masters", []string{"run", "--strategy", "fine:redlock", "--redlock", url}, "an odd number of at least 3"},
		{"one master three times", []string{"run", "--strategy", "fine:redlock", "--redlock", url + "," + url + "," + url}, "twice"},
		{"no masters", []string{"run", "--strategy", "fine:redlock", "--redlock", ""}, "--redlock is given nothing"},
		{"secret in a list", []string{"run", "--strategy", "fine,redis://u:s3cret@h"}, "redis://***@h"},
		{"second line of strategies", []string{"run", "--strategy", "coarse:set-px\nfine:nonexistent"}, "control character"},
		{"funds that overflow", with("--funds", "9223372036854775807"), "--funds 9223372036854775807: at most"},
		{"masters of another kind", []string{"run", "--strategy", "fine:redlock", "--redlock", "http://a,http://b,http://c"}, "--redlock: "},
		{"browsers under an exclusive lock", with("--browsers", "1"), "fine has no lock that can be shared"},
		{"browsers without a lock", []string{"run", "--strategy", "watch", "--browsers", "1"}, "coarse:rw-safe"},
		{"fencing without a lock", []string{"run", "--strategy", "watch", "--fencing"}, "watch takes no lock; coarse does, as in coarse:fenced"},
		{"fencing under a lock without fences", with("--fencing"), "(" + fenced + "), or measure fine:fencing=off,fine:fencing=token without --fencing"},
		{"fencing twice", []string{"run", "--strategy", "fine:fenced:fencing=on", "--fencing"}, "leave fencing=on out"},
		{"fencing of nothing known", []string{"run", "--strategy", "fine:fence", "--fencing"}, `did you mean "fenced"?`},
		{"fencing=on without fences", []string{"run", "--strategy", "fine:fencing=on"}, "(" + fenced + "), or fencing=token"},
		{"unknown parameter", []string{"run", "--strategy", "fine:pol=1ms"}, `did you mean "poll"?`},
		{"bad parameter", []string{"run", "--strategy", "fine:poll=soon"}, "not a duration"},
		{"mix without sellers", with("--mix", "0x5"), `mix "0x5"`},
		{"half a mix", with("--mix", "5x"), `mix "5x"`},
		{"mix of three", with("--mix", "5x5x5"), `mix "5x5x5"`},
		{"buyers that are no number", with("--sellers", "1", "--buyers", "many"), `--buyers "many": it takes a whole number`},
		{"a seed below zero", with("--seed", "-1"), `--seed "-1": it takes a whole number that is not negative`},
		{"mix beyond the limit", with("--mix", "9999x1"), `mix "9999x1": a row has at most 1000 workers`},
		{"mix far beyond the limit", with("--mix", "99999999999999999999x1"), "at most 1000 workers"},
		{"buyers beyond the limit", with("--sellers", "1", "--buyers", "1000000000"), "at most 1000 workers"},
		{"browsers beyond the limit", []string{"run", "--strategy", "coarse:rw-safe", "--browsers", "100000"}, "--browsers 100000: a row has at most 1000 workers"},
		{"nearest lock but for a hyphen", []string{"run", "--strategy", "fine:setpx"}, `did you mean "set-px"?`},
		{"empty json", with("--json", ""), "--json is given nothing"},
		{"empty out", with("--out", ""), "--out is given nothing"},
		{"empty prefix", with("--prefix="), "--prefix is given nothing"},
		{"empty URL", with("--redis", ""), "--redis is given nothing"},
		{"empty history", with("--history", " "), "--history is given nothing"},
		{"json and another format", with("--json", "-", "--format", "csv"), "both want stdout"},
		{"unknown format of a run", with("--format", "pdf"), "--format: unknown report format"},
		{"out that holds a run", with("--out", filepath.Dir(stored)), "is there already: name another folder, or give --force"},
		{"unix URL without a path", with("--redis", "unix:///"), "for example unix:///run/redis.sock"},
		{"help of nothing", []string{"help", "nope"}, `unknown command "nope"`},
		{"help of nothing below a command", []string{"help", "run", "nope"}, `unknown command "nope"`},
		{"completion of nothing", []string{"completion", "tcsh"}, `unknown command "tcsh"`},
		{"negative mix", with("--mix", "-1x5"), `mix "-1x5"`},
		{"no mix", with("--mix", ""), "--mix is given nothing"},
		{"mix and sellers", with("--mix", "1x1", "--sellers", "1", "--buyers", "1"), "either --mix or --sellers and --buyers"},
		{"mix and buyers", with("--mix", "1x1", "--buyers", "1"), "either --mix or --sellers and --buyers"},
		{"sellers alone", with("--sellers", "1"), "go together"},
		{"no buyers", with("--sellers", "1", "--buyers", "0"), `mix "1x0"`},
		{"negative duration", with("--duration", "-1s"), "--duration -1s: must be positive"},
		{"no duration", with("--duration", "0s"), "--duration 0s: must be positive"},
		{"duration without unit", with("--duration", "5"), `--duration "5": it takes a time with its unit`},
		{"no trials", with("--trials", "0"), "--trials 0: each row is measured at least once; give 1, 6, 9, 12 or 15"},
		{"negative trials", with("--trials", "-1"), "--trials -1: each row is measured at least once"},
		{"few trials", with("--trials", "5"), "--trials 5: so few rounds have no 95% interval"},
		{"lopsided trials", with("--trials", "8"), "--trials 8: the interval of their median is lopsided; give 1, 6, 9, 12 or 15"},
		{"trials in vain", with("--trials", "10"), "--trials 10: the interval of their median is wider than that of 9"},
		{"many trials", with("--trials", "18"), "--trials 18: instead of more than 15 rounds"},
		{"trials that are no number", with("--trials", "nine"), `--trials "nine": it takes a whole number`},
		{"reproduce, lopsided trials", []string{"reproduce", "--trials", "8"}, "--trials 8: "},
		{"strategy twice", []string{"run", "--strategy", "fine,fine:poll=1ms"}, "fine 5x5 is asked for twice: to measure each row several times, give --trials"},
		{"mix twice", with("--mix", "1x1,1x1"), "fine 1x1 is asked for twice"},
		{"keep several trials", with("--keep", "--trials", "6", "--redis", url), "this run makes 6"},
		{"negative warm-up", with("--warmup", "-1s"), "--warmup -1s: must not be negative"},
		{"a rate of nothing", with("--rate", "0"), "--rate 0: must be more than 0; without --rate the buyers set the rate"},
		{"a rate of next to nothing", with("--rate", "0.01"), "--rate 0.01: less than one purchase in the 10s of a row"},
		{"a rate that cannot be scheduled", with("--rate", "500,1.5M"), "--rate 1.5M: at most 1000000 purchases a second"},
		{"a rate beyond all numbers", with("--rate", strings.Repeat("9", 400)), "at most 1000000 purchases a second"},
		{"a rate below zero", with("--rate", "-5"), `--rate "-5": want purchases a second, such as 500, 2.5k or 1M`},
		{"a rate that is no number", with("--rate", "fast"), `--rate "fast": want purchases a second`},
		{"a rate in another notation", with("--rate", "1e3"), `--rate "1e3": want`},
		{"a rate twice", with("--rate", "1k,1000"), "--rate 1000: the same rate twice"},
		{"no rate", with("--rate="), "--rate is given nothing"},
		{"half a list of rates", with("--rate", "1k,"), "--rate has an empty element"},
		{"unknown arrivals", with("--rate", "1k", "--arrivals", "weekly"), `--arrivals "weekly": want poisson or constant`},
		{"arrivals without a rate", with("--arrivals", "constant"), "--arrivals is about orders at a rate: give --rate, too"},
		{"an objective without a rate", with("--slo", "10ms"), "--slo is about orders at a rate: give --rate, too"},
		{"an objective of nothing", with("--rate", "1k", "--slo", "0s"), "--slo 0s: must be positive"},
		{"an objective without unit", with("--rate", "1k", "--slo", "10"), `--slo "10": it takes a time with its unit`},
		{"report of a row that is not there", []string{"report", stored, "--row", "fine 7x7"}, `there is no row "fine 7x7"; there is `},
		{"report of a row of faults", []string{"report", storedFaults, "--row", "fine 5x5"}, "only a run has rows"},
		{"percentiles of several rows", []string{"report", stored, "--format", "hgrm"}, "shows the waits of one row, and there are 4: name one with --row, such as '"},
		{"keep at several rates", with("--keep", "--rate", "1k,2k", "--redis", url), "this run makes 2"},
		{"reproduce at a rate", []string{"reproduce", "--rate", "1k"}, "unknown flag: --rate"},
		{"no hot items", with("--hot", "0", "--mix", "0x5"), "--hot 0: want 1 to 1000000 items"},
		{"hot items below zero", with("--hot", "-1"), "--hot -1: want 1 to 1000000 items"},
		{"too many hot items", with("--hot", "1000001"), "--hot 1000001: want 1 to 1000000 items"},
		{"hot items that are no number", with("--hot", "all"), `--hot "all": it takes a whole number`},
		{"hot items and sellers", with("--hot", "1", "--mix", "5x5"), `mix "5x5": where hot items circulate nobody but buyers sells: want 0xBUYERS, such as 0x5`},
		{"hot items and one seller", with("--hot", "1", "--sellers", "1", "--buyers", "5"), "want 0xBUYERS, such as 0x5"},
		{"no sellers", with("--mix", "0x5"), "without sellers, items have to circulate: give --hot, too"},
		{"hot items at a rate", with("--hot", "1", "--rate", "1k"), "--rate and --hot: buyers who list again are not free"},
		{"hot items for poor buyers", with("--hot", "1", "--funds", "99"), "--funds 99: with --hot at least 100"},
		{"other work for less than no time", with("--hold", "-1ms"), "--hold -1ms: want 0s to 10s"},
		{"other work for too long", with("--hold", "10001ms"), "--hold 10.001s: want 0s to 10s"},
		{"other work without unit", with("--hold", "1"), `--hold "1": it takes a time with its unit`},
		{"a delay of less than nothing", with("--rtt", "-1ms"), "--rtt -1ms: want 0s to 1s"},
		{"too long a delay", with("--rtt", "1.001s"), "--rtt 1.001s: want 0s to 1s"},
		{"a delay of a lock elsewhere", []string{"run", "--strategy", "fine:zookeeper", "--rtt", "1ms"}, "the lock zookeeper is kept in zookeeper: it would look faster than it is"},
		{"comparison with a lock elsewhere", []string{"compare", "fine", "fine:etcd", "--rtt", "1ms"}, "the lock etcd is kept in etcd"},
		{"comparison of hot items and sellers", []string{"compare", "fine", "lua", "--hot", "1", "--mix", "1x1"}, "want 0xBUYERS, such as 0x5"},
		{"reproduction of hot items", []string{"reproduce", "--hot", "1"}, "unknown flag: --hot"},
		{"stored runs and a workload", []string{"compare", stored, stored, "--hot", "1"}, "--hot is for strategies: stored runs are compared as they are"},
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
		{"reproduce, negative duration", []string{"reproduce", "--duration", "-1s"}, "must be positive"},
		{"reproduce, unwritable out", []string{"reproduce", "--out", below}, "--out: "},
		{"report without a run", []string{"report"}, "requires at least 1 arg"},
		{"page that cannot be written, before anything is read", []string{"report", damaged, "--format", "html", "-o", below}, "-o: "},
		{"page that is a folder", []string{"report", stored, "--format", "html", "-o", t.TempDir()}, "is a folder"},
		{"page for nobody", []string{"report", stored, "-o", ""}, "--output is given nothing"},
		{"page and JSON in one file", []string{"report", stored, "-o", odd, "--json", odd}, "--json and -o both want " + odd},
		{"page in a file and JSON to stdout", []string{"report", stored, "-o", odd, "--json", "-"}, "give one of them"},
		{"page of a run that does not make one", with("--format", "html"), "--format: unknown report format"},
		{"damaged result among good ones", []string{"report", stored, damaged, storedFaults, "--format", "html"}, damaged + ": read faults: it is cut short"},
		{"nothing among good ones", []string{"report", stored, filepath.Dir(file) + "/none"}, "none"},
		{"story that cannot be written", []string{"check", t.TempDir(), "--html", below}, "--html: "},
		{"report of nothing", []string{"report", below}, "below"},
		{"report of an empty file", []string{"report", file}, "it is empty; make it anew with 'marketsim run --out'"},
		{"report of no end", []string{"report", "/dev/zero"}, "/dev/zero: read result: it is larger than 192 MiB"},
		{"report with a number that is a text", []string{"report", odd}, "rows.bought is a JSON string, which it cannot be"},
		{"plot of nothing", []string{"plot"}, "accepts 1 arg"},
		{"plot without a file", []string{"plot", stored}, "give -o FILE.svg or -o FILE.png, or --list"},
		{"plot in another format", []string{"plot", stored, "-o", "x.pdf"}, "--output x.pdf: its name must end in .svg or .png"},
		{"plot where none can be stored", []string{"plot", stored, "-o", filepath.Join(below, "x.svg")}, "--output: "},
		{"plot in place of a folder", []string{"plot", stored, "-o", folder}, "is a folder"},
		{"plot of an unknown figure", []string{"plot", stored, "--figure", "thruput", "-o", filepath.Join(folder, "x.svg")},
			`unknown figure "thruput"; known: throughput, cost, tries, fairness; did you mean "throughput"?`},
		{"plot of a list", []string{"plot", stored, "--list", "--figure", "cost"}, "--list draws nothing"},
		{"plot of faults", []string{"plot", filepath.Join(storedFaults, faultsFile), "--list"}, "findings of fault scenarios"},
		{"plot of a folder without a run", []string{"plot", t.TempDir(), "--list"}, "holds no run.json and no sweep.json"},
		{"plot of a damaged run", []string{"plot", odd, "--list"}, "rows.bought is a JSON string"},
		{"check in an unknown format", []string{"check", below, "--format", "pdf"}, "text, markdown, csv, json"},
		{"list in an unknown format", []string{"list", "--format", "pdf"}, "text, markdown, csv, json"},
		{"report of a folder without a run", []string{"report", t.TempDir()}, "run.json"},
		{"history below a file", with("--history", below), "--history: "},
		{"check of nothing", []string{"check", below}, "no history found"},
		{"check of a folder without a history", []string{"check", t.TempDir()}, "no history.jsonl in"},
		{"check without a folder", []string{"check"}, "accepts 1 arg"},
		{"check without time", []string{"check", below, "--timeout", "0s"}, "--timeout 0s: must be positive"},
		{"unknown format", []string{"report", stored, "--format", "pdf"}, "text, markdown, csv, json, gobench"},
		{"unknown scenario", []string{"faults", "--scenario", "puase"}, `did you mean "pause"?; 'marketsim list --scenarios'`},
		{"second scenario unknown", []string{"faults", "--scenario", "pause,x"}, `unknown scenario "x"; known: crash-half-taken`},
		{"no scenario", []string{"faults", "--scenario="}, "--scenario is given nothing"},
		{"unknown lock of faults", []string{"faults", "--lock", "set-px,setxn"}, `did you mean "setnx"?; 'marketsim list'`},
		{"unknown strategy of faults", []string{"faults", "--lock", "wathc"}, `did you mean "watch"?`},
		{"unknown parameter of faults", []string{"faults", "--lock", "set-px:expiri=px"}, `did you mean "expiry"?`},
		{"no lock of faults", []string{"faults", "--lock="}, "--lock is given nothing"},
		{"faults in an unknown format", []string{"faults", "--format", "pdf"}, "want one of text, markdown, csv, json"},
		{"faults, unwritable out", []string{"faults", "--out", below}, "--out: "},
		{"a strategy of faults", []string{"faults", "--strategy", "lua"}, "unknown flag: --strategy; name the strategy with --lock"},
		{"faults on a server", []string{"faults", "--redis", url}, "unknown flag: --redis"},
		{"list of locks and scenarios", []string{"list", "--locks", "--scenarios"}, "either --locks or --scenarios"},
		{"report of damaged faults", []string{"report", damaged}, "read faults: it is cut short; make it anew with 'marketsim faults --out'"},
		{"report of damaged faults in a folder", []string{"report", filepath.Dir(damaged)}, "read faults: it is cut short; make it anew with 'marketsim faults --out'"},
		{"report of faults in an unknown format", []string{"report", storedFaults, "--format", "pdf"}, "text, markdown, csv, json"},
		{"report of faults for benchstat", []string{"report", storedFaults, "--format", "gobench"}, `unknown report format "gobench": want one of text, markdown, csv, json, html (`},
		{"run for benchstat", with("--format", "gobench"), "want one of text, markdown, csv, json"},
		{"comparison of nothing", []string{"compare"}, "compare what? give two or more strategies, or two stored runs"},
		{"comparison with nothing", []string{"compare", "fine"}, "compare fine with what? give another strategy, or another stored run"},
		{"comparison with an unknown strategy", []string{"compare", "fine", "fien"}, `did you mean "fine"?; and there is no file of that name`},
		{"comparison in eight rounds", []string{"compare", "fine", "watch", "--trials", "8"}, "--trials 8: give a multiple of 3 from 6 to 60"},
		{"comparison in no rounds", []string{"compare", "fine", "watch", "--trials", "0"}, "--trials 0: give a multiple of 3 from 6 to 60"},
		{"comparison of many pairs in few rounds", []string{"compare", "fine", "watch", "coarse", "--trials", "6"}, "--trials 6: these are 3 pairs, so that intervals need more confidence: give 9 or more"},
		{"comparison without a percentage", []string{"compare", "fine", "watch", "--margin", "5"}, `--margin "5": it takes a percentage below 100%, such as 5%`},
		{"comparison within everything", []string{"compare", "fine", "watch", "--margin", "100%"}, `--margin "100%"`},
		{"comparison within less than nothing", []string{"compare", "fine", "watch", "--margin", "-1%"}, `--margin "-1%"`},
		{"comparison within NaN", []string{"compare", "fine", "watch", "--margin", "nan%"}, `--margin "nan%"`},
		{"comparison under a mix twice", []string{"compare", "fine", "watch", "--mix", "1x1,1x1"}, "fine 1x1 is asked for twice"},
		{"comparison under a bad mix", []string{"compare", "fine", "watch", "--mix", "0x1"}, `mix "0x1"`},
		{"clean without prefix", []string{"clean", "--redis", url}, "give --prefix"},
		{"clean without server", []string{"clean", "--prefix", "x:"}, "give --redis URL or REDIS_URL"},
		{"clean everything", []string{"clean", "--prefix", "*:", "--redis", url}, "glob characters"},
	} {
		t.Run(c.name, func(t *testing.T) {
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
	marketsim(t, "run", "--strategy", "fine", "--mix", "1x1").exits(t, exitUsage).says(t, "REDIS_URL: invalid Redis URL")
	marketsim(t, short("run", "--strategy", "fine", "--mix", "1x1", "--backend", "embedded")...).exits(t, exitFine)
}
