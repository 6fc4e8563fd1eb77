package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

// secret is the password of every test that has one. It needs no percent-encoding.
const secret = "hunter2-S3CR3T"

// hidden checks that a password is nowhere in what a command printed and in the
// files it left.
func hidden(t testing.TB, secret string, o outcome, dirs ...string) {
	t.Helper()
	if strings.Contains(o.stdout, secret) || strings.Contains(o.stderr, secret) {
		t.Errorf("the password is shown\nstdout:\n%s\nstderr:\n%s", o.stdout, o.stderr)
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if strings.Contains(string(content), secret) {
				t.Errorf("the password is in %s:\n%s", path, content)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// passwordForms are the ways of giving the password of a server.
var passwordForms = map[string]func(t *testing.T, addr string) []string{
	"--redis=URL": func(t *testing.T, addr string) []string { return []string{"--redis=redis://:" + secret + "@" + addr} },
	"--redis URL": func(t *testing.T, addr string) []string {
		return []string{"--redis", "redis://default:" + secret + "@" + addr}
	},
	"REDIS_URL": func(t *testing.T, addr string) []string {
		t.Setenv("REDIS_URL", "redis://:"+secret+"@"+addr)
		return nil
	},
	"REDIS_PASSWORD": func(t *testing.T, addr string) []string {
		t.Setenv("REDIS_PASSWORD", secret)
		return []string{"--redis", "redis://" + addr}
	},
	"--password-file": func(t *testing.T, addr string) []string {
		file := filepath.Join(t.TempDir(), "password")
		testkit.Succeeds(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
		return []string{"--redis", "redis://:not-this-one@" + addr, "--password-file", file}
	},
}

func TestPasswordIsHidden(t *testing.T) {
	right := testkit.Start(t, backend.Local{Password: secret})
	wrong := testkit.Start(t, backend.Local{Password: "another"})
	slip := marketsim(t, "run", "--strategy", "fine", "--redis", "redis://"+secret+"@"+right.Target.Addr)
	hidden(t, secret, slip.exits(t, exitEnvironment).says(t, "as a user without a password"))
	var masters []string
	for range 3 {
		masters = append(masters, "redis://:"+secret+"@"+fakeRedis(t, echo))
	}
	five := marketsim(t, "run", "--strategy", "fine:redlock:node-timeout=2.5s", "--redlock", strings.Join(masters, ","))
	hidden(t, secret, five.exits(t, exitEnvironment).says(t, "unknown command"))
	for form, flags := range passwordForms {
		t.Run(form, func(t *testing.T) {
			for _, c := range []struct {
				name, addr string
				code       int
				says       string
			}{
				{"right password", right.Target.Addr, exitFine, "audit ok"},
				{"wrong password", wrong.Target.Addr, exitEnvironment, "cannot log in to Redis"},
				{"refused", refusedAddr(t), exitEnvironment, "cannot reach Redis"},
				{"echoes what it does not know", fakeRedis(t, echo), exitEnvironment, "unknown command"},
				{"no server's name", "bad host", exitUsage, "invalid Redis URL"},
			} {
				t.Run(c.name, func(t *testing.T) {
					dir := t.TempDir()
					args := append([]string{"run", "--strategy", "fine", "--mix", "1x1", "--out", filepath.Join(dir, "out")},
						flags(t, c.addr)...)
					o := marketsim(t, short(args...)...).exits(t, c.code).says(t, c.says)
					hidden(t, secret, o, dir)
					args = append([]string{"clean", "--prefix", "x:"}, flags(t, c.addr)...)
					hidden(t, secret, marketsim(t, args...))
				})
			}
		})
	}
}

// echo is a proxy that repeats what it was told, as Redis does in its errors.
func echo(args []string) string {
	return "-ERR unknown command `" + args[0] + "`, with args beginning with: `" + strings.Join(args[1:], "`, `") + "`\r\n"
}

func TestPasswordInTheWrongPlace(t *testing.T) {
	url := "redis://user:" + secret + "@localhost"
	for _, args := range [][]string{
		{url},
		{"run", url},
		{"run", "user:" + secret + "@localhost"},
		{"run", "--strategy", url},
		{"run", "--strategy", "fine", "--mix", url},
		{"run", "--strategy", "fine", "--duration", url},
		{"run", "--strategy", "fine", "--duration=" + url},
		{"run", "--strategy", "fine", "--prefix", url},
		{"run", "--strategy", "fine", "--backend", url},
		{"run", "--strategy", "fine", "--redis", "redis://user:" + secret + "#@localhost"},
		{"run", "--strategy", "fine", "--redis", "redis://user:%" + secret + "@localhost"},
		{"run", "--strategy", "fine", "--redis", "redis://localhost:" + secret},
		{"run", "--strategy", "fine", "--redis", "redis://localhost?password=" + secret},
		{"run", "--strategy", "fine", "--redis", secret},
		{"run", "--strategy", "fine", "--rediss=" + url},
		{"report", url},
		{"report", storedRun(t), "--format", url},
		{"clean", url},
		{"list", url},
	} {
		hidden(t, secret, marketsim(t, args...).exits(t, exitUsage))
	}
}

func TestWithoutPasswords(t *testing.T) {
	for text, want := range map[string]string{
		"fine:set-px:ttl=1s at http://h/p": "fine:set-px:ttl=1s at http://h/p",
		"redis://u:pw@h:7/2":               "redis://...@h:7/2",
		"redis://u:it's@h:7":               "redis://...@h:7",
		"--redis=rediss://:pw@h":           "--redis=rediss://...@h",
		"u:pw@h":                           "...@h",
		"is redis://h:7 up?":               "is redis://h:7 up?",
	} {
		if got := withoutPasswords(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	p := &program{
		args:      []string{"run", "--redis", "redis://u:pw@h", "--strategy=fine:poll=2ms", "--prefix", "a b:"},
		passwords: []string{"pw"},
	}
	want := " run --redis redis://...@h --strategy=fine:poll=2ms --prefix 'a b:'"
	if got := p.commandLine(); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end in %q", got, want)
	}
	err := p.discreet(usageError{errors.New("unknown command `AUTH`, with args `pw`")})
	if err.Error() != "unknown command `AUTH`, with args `***`" || exitCode(err) != exitUsage || p.discreet(nil) != nil {
		t.Errorf("%v exits %d", err, exitCode(err))
	}
}
