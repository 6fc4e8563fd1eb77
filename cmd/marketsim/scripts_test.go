package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
)

// luaFile is a file with a script.
func luaFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mine.lua")
	testkit.Succeeds(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// copied is the script that 'marketsim list script' prints, and the same without its charge.
func copied(t *testing.T) (right, wrong string) {
	t.Helper()
	right = marketsim(t, "list", "script").exits(t, exitFine).
		says(t, "KEYS[1]", "ARGV[3]", "'price_changed'").stdout
	const charge = "redis.call('HINCRBY', KEYS[2], 'funds', -tonumber(ARGV[1]))\n"
	wrong = strings.Replace(right, charge, "", 1)
	if wrong == right {
		t.Fatalf("the script does not charge by %q:\n%s", charge, right)
	}
	return right, wrong
}

// TestScriptUsage: what cannot be a strategy is refused before anything starts, by each
// command that takes scripts.
func TestScriptUsage(t *testing.T) {
	t.Parallel()
	good := luaFile(t, "return 1")
	broken := luaFile(t, "return 1\nif then\nend")

	for _, c := range []struct{ given, says string }{
		{"", "script:mine: which script is it? give --script mine=FILE"},
		{"other=" + good, "script:mine: which script is it? give --script mine=FILE"},
		{"mine", "want NAME=FILE"},
		{"mine=", "want NAME=FILE"},
		{"m:e=" + good, "want NAME=FILE"},
		{"a,b=" + good, "want NAME=FILE"},
		{"mine=" + good + ".not",
			"no such file or directory; 'marketsim list script' prints one to start from"},
		{"mine=" + broken, "mine.lua is no script that Lua reads: line:2"},
	} {
		for _, command := range []string{"run", "explore", "faults", "sweep --axis rtt=0"} {
			args := append(strings.Fields(command), "script:mine")
			if c.given != "" {
				args = append(args, "--script", c.given)
			}
			marketsim(t, args...).exits(t, exitUsage).says(t, c.says).silent(t, "backend:")
		}
	}

	marketsim(t, "run", "script:mine", "--script", "mine="+good, "--script", "mine="+good).
		exits(t, exitUsage).says(t, "its NAME is given twice")
}

// TestScripts: two scripts are compared, and what is stored says exactly which they were.
func TestScripts(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	right, _ := copied(t)
	old, now, dir := luaFile(t, right), luaFile(t, right+"-- new\n"), filepath.Join(t.TempDir(), "out")
	args := []string{
		"compare", "script:old", "script:new", "--script", "old=" + old, "--script", "new=" + now,
		"--trials", "9", "--mix", "1x1", "--duration", "30ms", "--warmup", "0s", "--out", dir,
	}
	sum := sha256.Sum256([]byte(right))
	o := marketsim(t, args...).exits(t, exitFine).says(t,
		"Compared: script:old", "SHA-256", hex.EncodeToString(sum[:]), "9 rounds of 3 rows")

	run := parse(t, read(t, filepath.Join(dir, runFile)))
	if s := run.Manifest.Scripts; len(s) != 2 ||
		s[0].Name != "script:old" || s[0].File != old || s[0].Text != right ||
		s[0].SHA256 != hex.EncodeToString(sum[:]) || s[1].Text != right+"-- new\n" {
		t.Errorf("stored: %+v", s)
	}
	// in all rounds: in a row as short as these a busy machine may do nothing
	bought := map[string]int64{}
	for _, row := range run.Rows {
		bought[row.Strategy] += row.Bought
		if !row.Audit.OK {
			t.Errorf("%s: %+v", row.Name(), row.Audit)
		}
	}
	if bought["script:old"] == 0 || bought["script:new"] == 0 {
		t.Errorf("bought %v", bought)
	}
	// It runs again as it is stored.
	for _, want := range []string{"--script old=" + old, "--script new=" + now} {
		if !strings.Contains(run.Manifest.Command, want) {
			t.Errorf("the command is %s, want %s in it", run.Manifest.Command, want)
		}
	}
	if again := marketsim(t, "report", dir).exits(t, exitFine); again.stdout != o.stdout {
		t.Errorf("report draws\n%s\nand compare drew\n%s", again.stdout, o.stdout)
	}
}

// TestExploreWrongScript: a script that does not charge is found by the audit of a run and by
// the search, whose token plays it again. A search lets no other test run beside it.
func TestExploreWrongScript(t *testing.T) {
	_, wrong := copied(t)
	mine := []string{"--script", "mine=" + luaFile(t, wrong)}
	marketsim(t, short(append(mine, "run", "script:mine", "--backend", "embedded")...)...).
		exits(t, exitViolation).
		says(t, "one client alone breaks the market: [account of user 2 holds 1000 coins")

	dir := filepath.Join(t.TempDir(), "explored")
	marketsim(t, append(mine, "explore", "script:mine", "--out", dir)...).exits(t, exitViolation).
		says(t, "script:mine promises", "program one-item found it coins made")
	res := testkit.Must(findings.ReadExplorations(
		strings.NewReader(read(t, filepath.Join(dir, exploredFile))),
	))(t)
	if len(res.Scripts) != 1 || res.Scripts[0].Text != wrong {
		t.Errorf("stored: %+v", res.Scripts)
	}
	token, again := res.Searches[0].Token, res.Again(res.Searches[0])
	want := "--replay " + token + " --script mine=" + mine[1][len("mine="):]
	if !strings.HasSuffix(again, want) {
		t.Errorf("it is played again by %s, want %s", again, want)
	}
	marketsim(t, append(mine, "explore", "--replay", token)...).exits(t, exitViolation).
		says(t, "coins made")
	marketsim(t, "explore", "--replay", token).exits(t, exitUsage).says(t, "give --script mine=FILE")
}

// TestScriptInScenarios: clients of a scenario, which are processes of their own, have the
// script, and those of another scheme beside them do not.
func TestScriptInScenarios(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	right, wrong := copied(t)

	play := func(text string) *findings.FaultTable {
		o := marketsim(t, "faults", "script:mine", "lua", "--script", "mine="+luaFile(t, text),
			"--scenario", "pause,mixed,resent", "--format", "json")
		res := parseFaults(t, o.stdout)
		if len(res.Manifest.Scripts) != 1 || res.Manifest.Scripts[0].Text != text {
			t.Errorf("stored: %+v", res.Manifest.Scripts)
		}
		return res
	}

	for scenario, pair := range bySubject(play(right)) {
		if pair["script:mine"] != pair["lua"] {
			t.Errorf("%s: %v, want the same for both", scenario, pair)
		}
	}

	if pause := bySubject(play(wrong))["pause"]; pause["script:mine"] == pause["lua"] {
		t.Errorf("a script that does not charge is found to be as lua: %v", pause)
	}
}

// bySubject are the verdicts of each scenario by the scheme.
func bySubject(res *findings.FaultTable) map[string]map[string]verify.Verdict {
	all := map[string]map[string]verify.Verdict{}
	for _, f := range res.Findings {
		if all[f.Scenario] == nil {
			all[f.Scenario] = map[string]verify.Verdict{}
		}
		all[f.Scenario][f.Subject] = f.Verdict
	}
	return all
}

// TestScriptsWithoutPasswords: a password does not stand in the script that is stored, whose
// sum is that of the file, and the result says so. One without is stored as it is.
func TestScriptsWithoutPasswords(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	with := stored.NewScript("script:with", "with.lua", "return '"+secret+"'")
	without := stored.NewScript("script:without", "without.lua", "return 1")
	all := []stored.Script{with, without}

	var known passwords
	known.add(secret)
	known.hideInScripts(all)
	known.hideInScripts(all) // who hides twice has not changed it back

	got := all[0]
	if got.Text != "return '"+masked+"'" || got.SHA256 != with.SHA256 || !got.Masked {
		t.Errorf("stored is %+v", got)
	}
	const note = "(of the file; the text that is stored has no passwords)"
	if !strings.HasSuffix(got.String(), note) {
		t.Errorf("it is told as %q", got)
	}
	if all[1] != without || strings.Contains(all[1].String(), "(") {
		t.Errorf("a script without passwords is stored as %+v, and told as %q", all[1], all[1])
	}
}
