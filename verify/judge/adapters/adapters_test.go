package adapters_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/judge/adapters"
)

func TestMain(m *testing.M) {
	os.Setenv("NODE_PATH", "/usr/share/nodejs") // where Debian has node-redis
	testkit.VerifyNoLeaks(m)
}

// A language that there is not is refused with those that there are.
func TestUnknownLanguage(t *testing.T) {
	_, err := adapters.Source("lock", "cobol")
	if err == nil || !strings.Contains(err.Error(), "java, laravel, node, php, python") {
		t.Errorf("an adapter that there is not: %v", err)
	}
}

// interpreters run the program of a language from its source.
var interpreters = map[string]string{
	"node": "node", "php": "php", "python": "/usr/bin/python3", "ruby": "ruby",
	"laravel": "php", "symfony": "php",
}

// endings are those of the names of files.
var endings = map[string]string{
	"go": ".go", "java": ".java", "node": ".js", "redlock": ".js",
	"php": ".php", "laravel": ".php", "symfony": ".php",
	"python": ".py", "ruby": ".rb", "redisson": ".java", "shedlock": ".java",
}

// probes are commands that fail if this machine lacks what runs the programs of a language, or
// their client library.
var probes = map[string][]string{
	"go":      {"go", "version"},
	"java":    {"java", "--list-modules"},
	"node":    {"node", "-e", "require('redis')"},
	"php":     {"php", "-r", "new Redis();"},
	"python":  {"/usr/bin/python3", "-c", "import redis"},
	"ruby":    {"ruby", "-e", "require 'redis'"},
	"laravel": {"php", "-r", "new Redis(); require '/usr/share/php/Illuminate/Cache/autoload.php';"},
	"symfony": {"php", "-r", "new Redis(); require '/usr/share/php/Symfony/Component/Lock/autoload.php';"},
}

// command is what runs a program whose text is given. It skips the test where that cannot be.
func command(t *testing.T, language, text string) []string {
	t.Helper()
	if strings.Contains(text, "Not run here") {
		t.Skipf("the library of %s cannot be installed here", language)
	}
	probe := probes[language]
	said, err := exec.CommandContext(t.Context(), probe[0], probe[1:]...).CombinedOutput()
	if err != nil {
		testkit.Require(t, "clients",
			fmt.Sprintf("programs in %s do not run here: %v: %.200s", language, err, said))
	}

	dir := t.TempDir()
	source := filepath.Join(dir, "adapter"+endings[language])
	testkit.Succeeds(t, os.WriteFile(source, []byte(text), 0o600))
	switch language {
	case "go":
		binary := filepath.Join(dir, "adapter")
		compile(t, "go", "build", "-o", binary, source)
		return []string{binary}
	case "java": // as javac does, which a machine that only runs Java does not have
		compile(t, "java", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", dir, source)
		return []string{"java", "-cp", dir, "Lock"}
	}
	return []string{interpreters[language], source}
}

func compile(t *testing.T, compiler ...string) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), compiler[0], compiler[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", compiler, err, said)
	}
}

// alone skips what concludes nothing while other tests run.
func alone(t *testing.T) {
	t.Helper()
	if os.Getenv("MARKETSIM_JUDGE") == "" {
		t.Skip("takes a machine of its own: set MARKETSIM_JUDGE=all")
	}
}

// finds checks which harms a search finds in a program. It tries with longer and longer leases,
// so that a machine that stands still for a moment does not matter.
func finds(t *testing.T, o judge.Options, want ...verify.Harm) {
	t.Helper()
	testkit.Local(t) // or there is nothing to judge it on
	o.Bounds.Exhaustive = true
	o.Pairs = 4

	for o.Lease = 500 * time.Millisecond; o.Lease <= 4*time.Second; o.Lease *= 2 {
		found, err := judge.Run(t.Context(), o)
		var harms []verify.Harm
		for _, f := range found.Found {
			harms = append(harms, f.Harm)
		}
		slices.Sort(harms)
		if err == nil && slices.Equal(harms, want) {
			return
		}
		t.Logf("with leases of %s: %q, want %q: %v", o.Lease, harms, want, err)
	}

	t.Error("it is not judged as it should be")
}

// What is searched of a lock and of a purchase: what strikes each of them at its weakest, and
// what is found although nothing is wrong. Calls are cancelled where a program hears it.
var (
	lockBounds     = explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Pause, explore.Cancel}}
	purchaseBounds = explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Lose, explore.Late}}
)

// No promise of a lock is broken: a client that is stopped outlives its lease, and nothing else
// happens.
func TestLocks(t *testing.T) {
	alone(t)
	for _, language := range adapters.Languages("lock") {
		t.Run(language, func(t *testing.T) {
			if language == "laravel" || language == "symfony" {
				t.Skip("its leases are long: TestExchanges speaks with it")
			}
			text := testkit.Must(adapters.Source("lock", language))(t)
			o := judge.Options{Command: command(t, language, text), Program: "lock", Bounds: lockBounds}
			finds(t, o, verify.Outlived)
		})
	}
}

// A lock whose release compares nothing frees another's. CI judges the one in Java, of which
// package judge has no control; MARKETSIM_JUDGE=languages asks for all.
func TestFlawedLocks(t *testing.T) {
	alone(t)
	const compares = "if redis.call('get', KEYS[1]) == ARGV[1] then"

	for _, language := range adapters.Languages("lock") {
		text := testkit.Must(adapters.Source("lock", language))(t)
		flawed := strings.Replace(text, compares, "if true then", 1)
		if flawed == text {
			continue // it has no script of its own
		}
		if language != "java" && os.Getenv("MARKETSIM_JUDGE") != "languages" {
			continue
		}

		t.Run(language, func(t *testing.T) {
			pauses := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Pause}}
			o := judge.Options{Command: command(t, language, flawed), Program: "lock", Bounds: pauses}
			finds(t, o, verify.FreedAnothers, verify.NotTold, verify.Outlived)
		})
	}
}

// A purchase whose reply is lost, or that comes late, breaks no market.
func TestPurchases(t *testing.T) {
	alone(t)
	for _, language := range adapters.Languages("purchase") {
		t.Run(language, func(t *testing.T) {
			text := testkit.Must(adapters.Source("purchase", language))(t)
			finds(t, judge.Options{
				Command: command(t, language, text),
				Program: "one-item",
				Bounds:  purchaseBounds,
			})
		})
	}
}
