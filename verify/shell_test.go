package verify_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/verify"
)

// TestShell: what is shown to be pasted is on one line, and a shell reads what was typed.
func TestShell(t *testing.T) {
	bash, missing := exec.LookPath("bash")
	for want, words := range map[string][]string{
		"python3 lock.py":              {"python3", "lock.py"},
		`python3 'my lock.py' ''`:      {"python3", "my lock.py", ""},
		`sh -c 'echo "$HOME"; ls *'`:   {"sh", "-c", `echo "$HOME"; ls *`},
		`'it'\''s'`:                    {"it's"},
		`$'a\nb\tc\'d\\e"f'`:           {"a\nb\tc'd\\e\"f"},
		`$'\x1b[2J'`:                   {"\x1b[2J"},
		`'a|b' 'c&d' 'e>f' '(g)' '~h'`: {"a|b", "c&d", "e>f", "(g)", "~h"},
	} {
		if got := verify.Shell(words...); got != want {
			t.Errorf("%q is typed as %s, want %s", words, got, want)
		}
		if missing != nil {
			continue
		}
		read, err := exec.Command(bash, "-c", `printf '%s\0' `+want).Output()
		if again := strings.Split(strings.TrimSuffix(string(read), "\x00"), "\x00"); !slices.Equal(again, words) {
			t.Errorf("a shell reads %s as %q, %v; want %q", want, again, err, words)
		}
	}

	token := "x4/python3_" + strings.Repeat("a", 200) + "/lock/d1"
	judged := &verify.Explorations{Judged: true, Asked: []string{"--lease", "2s"}}
	want := "marketsim judge --lease 2s --replay " + token + " -- python3 'my lock.py'"
	if got := judged.Again(verify.Explored{Scheme: "python3 'my lock.py'", Token: token}); got != want {
		t.Errorf("a judged program is played again by %s, want %s", got, want)
	}
}
