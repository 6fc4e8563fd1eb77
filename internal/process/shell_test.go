package process_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/process"
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
		`$'"a\n"'`:                     {"\"a\n\""},
		`'a|b' 'c&d' 'e>f' '(g)' '~h'`: {"a|b", "c&d", "e>f", "(g)", "~h"},
	} {
		if got := process.ShellLine(words...); got != want {
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
}
