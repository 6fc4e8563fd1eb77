package main

import (
	"errors"
	"io/fs"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
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
	"--redis=URL": func(t *testing.T, addr string) []string {
		return []string{"--redis=redis://:" + secret + "@" + addr}
	},
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

// TestPasswordIsHidden is not parallel: some of passwordForms set environment variables.
func TestPasswordIsHidden(t *testing.T) {
	right := testkit.Start(t, backend.Local{Password: secret})
	wrong := testkit.Start(t, backend.Local{Password: "another"})

	slip := marketsim(t, "run", "--strategy", "fine",
		"--redis", "redis://"+secret+"@"+right.Target.Addr)
	hidden(t, secret, slip.exits(t, exitEnvironment).says(t, "as a user without a password"))

	var masters []string
	for range 3 {
		masters = append(masters, "redis://:"+secret+"@"+fakeRedis(t, echo))
	}
	five := marketsim(t, "run", "--strategy", "fine:redlock:node-timeout=2.5s",
		"--redlock", strings.Join(masters, ","))
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
					args := append([]string{
						"run", "--strategy", "fine", "--mix", "1x1", "--out", filepath.Join(dir, "out"),
					}, flags(t, c.addr)...)
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
	return "-ERR unknown command `" + args[0] + "`, with args beginning with: `" +
		strings.Join(args[1:], "`, `") + "`\r\n"
}

// TestPasswordInTheWrongPlace: an argument that is refused is not shown with its password.
func TestPasswordInTheWrongPlace(t *testing.T) {
	t.Parallel()
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

	p := &program{args: []string{
		"run", "--redis", "redis://u:pw@h", "--strategy=fine:poll=2ms", "--prefix", "a b:",
	}}
	p.passwords.add("pw")
	want := " run --redis redis://...@h --strategy=fine:poll=2ms --prefix 'a b:'"
	if got := p.commandLine(); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end in %q", got, want)
	}

	err := p.withoutSecrets(usageError{errors.New("unknown command `AUTH`, with args `pw`")})
	if err.Error() != "unknown command `AUTH`, with args `***`" || exitCode(err) != exitUsage ||
		p.withoutSecrets(nil) != nil {
		t.Errorf("%v exits %d", err, exitCode(err))
	}
}

func TestPasswordsAreHidden(t *testing.T) {
	t.Parallel()
	const long = "0123456789abcdefghijklmnopqrstuvwxyz!"
	for _, c := range []struct{ password, text, want string }{
		{"hunter2", "ERR what is hunter2? no hunter2", "ERR what is ***? no ***"},
		{"hunter2", "args: 'hunter2' `hunter2` hunter23", "args: '***' `***` ***3"},
		{"pass", "a compass", "a com***"},
		{"pw", "swpwn pw AUTH_pw", "swpwn pw AUTH_pw"},
		{"pw", "ERR unknown command 'AUTH' pw, xpw\npw", "ERR unknown command 'AUTH' ***, xpw\npw"},
		{"pw", "hello 3 auth default pw", "hello 3 auth default ***"},
		{"pw", "args `pw` 'pw' \"pw\"", "args `***` '***' \"***\""},
		{"", "a text", "a text"},
		{"p w/%é", "p w/%é p+w%2F%25%C3%A9 p%20w%2f%25%c3%a9 p%20w%2F%25%C3%A9", "*** *** *** ***"},
		{"p w@x", "redis://:p%20w%40x@h", "redis://:***@h"},
		{`it's "x"`, `"it's \"x\"" 'it'\''s "x"'`, `"***" '***'`},
		{"a\nbc", "args a bc and a\\nbc", "args *** and ***"},
		{"<&>1", `{"said":"\u003c\u0026\u003e1"}`, `{"said":"***"}`},
		{long, "'" + long[:32] + "' '" + long[:35] + "x' " + long[:31], "'***' '***x' " + long[:31]},
		{"hunter2", "it was hunt" + wire.CutMark + "; he", "it was ***" + wire.CutMark + "; he"},
	} {
		var p passwords
		p.add("", c.password)
		if got := p.hide(c.text); got != c.want {
			t.Errorf("%q in %q: got %q, want %q", c.password, c.text, got, c.want)
		}
	}
}

// TestHidingIsFast: what begins like a password, or may be cut within one, may stand in a
// text very often.
func TestHidingIsFast(t *testing.T) {
	const long = "0123456789abcdefghijklmnopqrstuvwxyz!"
	var p passwords
	p.add(long)

	for _, c := range []struct{ name, often, want string }{
		{"beginnings", long[:35] + " ", masked + " "},
		{"cuts", long[:9] + wire.CutMark, masked + wire.CutMark},
	} {
		const times = 200_000
		text, want := strings.Repeat(c.often, times), strings.Repeat(c.want, times)
		testkit.Within(t, time.Second, c.name, func() {
			if p.hide(text) != want {
				t.Errorf("%s are not hidden", c.name)
			}
		})
	}
}

// TestServersThatSayTooMuch: a password is not shown however a server repeats it, of a long
// error only the beginning, and a line that does not end is refused.
func TestServersThatSayTooMuch(t *testing.T) {
	t.Parallel()
	const password = "p@ss w/rd"
	filler := strings.Repeat("x", 1<<20)
	says := func(text string) func([]string) string { return func([]string) string { return text } }
	url := "redis://:" + neturl.PathEscape(password) + "@"

	for _, c := range []struct {
		name   string
		answer func(args []string) string
		want   string
	}{
		{"unquoted", func(args []string) string {
			return "-ERR what is " + strings.Join(args, " ") + "\r\n"
		}, "what is "},
		{"quoted", echo, "unknown command"},
		{"as in a URL",
			says("-ERR " + neturl.QueryEscape(password) + " " + neturl.PathEscape(password) + "\r\n"),
			"*** ***"},
		{"in a status", says("+" + password + "\r\n"), "***"},
		{"in a long error", says("-ERR " + strings.Repeat(password, 1<<17) + "\r\n"), wire.CutMark},
		{"a long error", says("-ERR " + filler + "\r\n"), wire.CutMark},
		{"a line without end", says("+" + filler + filler), "a line of more than 1 MB that does not end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			addr := fakeRedis(t, c.answer)
			for _, args := range [][]string{
				{"run", "--strategy", "fine", "--mix", "1x1", "--redis", url + addr, "--out", dir},
				{"clean", "--prefix", "x:", "--redis", url + addr},
			} {
				o := marketsim(t, args...).exits(t, exitEnvironment).says(t, c.want)
				hidden(t, password, o, dir)
				hidden(t, "ss w", o, dir)
				if n := len(o.stdout + o.stderr); n > 10<<10 {
					t.Errorf("%d bytes are printed", n)
				}
			}
		})
	}
}

// TestPasswordInAPrefix: what is stored does not hold it either.
func TestPasswordInAPrefix(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, backend.Local{Password: secret})
	dir := t.TempDir()
	args := short("run", "--strategy", "fine", "--mix", "1x1", "--prefix", "x-"+secret+":",
		"--out", dir, "--redis", "redis://:"+secret+"@"+s.Target.Addr)
	hidden(t, secret,
		marketsim(t, args...).exits(t, exitFine).says(t, "audit ok", "under x-***:"), dir)
}
