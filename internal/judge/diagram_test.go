package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// A picture names the lock, scripts and tokens, has the text of a script once below it, and
// shows nothing that a terminal would obey.
func TestDiagramNamesThings(t *testing.T) {
	const script = "return redis.call('GET',\n  KEYS[1])"
	const sum = "0123456789012345678901234567890123456789"
	d := newDiagram("lock-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	d.addRequest(0, &wire.Held{Commands: [][]string{
		{"set", "my:lock-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "f81d4fae7dec11d0a76500a0c91e6bf6", "nx"},
		{"eval", script, "1", "a\x1b[31m\n"},
	}}, "OK")
	d.addRequest(1, &wire.Held{Commands: [][]string{
		{"evalsha", sum, "0", strings.Repeat("x y", 100)},
		{"eval", script, "0"},
	}}, "lock-ABCDEFGHIJKLMNOPQRSTUVWXYZ")

	twoHolders := verify.Violation{Harm: verify.TwoHolders, Text: "both"}
	drawn := d.draw([]*claim{{name: "Alice"}})([]verify.Violation{twoHolders})
	var does []string
	for _, e := range drawn.Events {
		does = append(does, e.Does)
	}

	want := []string{
		"SET my:lock:1 token-1 nx",
		`EVAL script-1 1 a\x1b[31m\n`,
		"EVALSHA script-2 0 " + strings.Repeat("x y", 10) + "..." + strings.Repeat("x y", 10),
		"EVAL script-1 0",
	}
	if !slices.Equal(does, want) {
		t.Errorf("%q\nwant %q", does, want)
	}

	if reply := drawn.Events[3].Reply; reply != "lock:1" {
		t.Errorf("the reply is drawn as %q", reply)
	}

	end := []string{
		"script-1: return redis.call('GET', KEYS[1])", "Harm: two holders: both",
	}
	if !slices.Equal(drawn.End, end) {
		t.Errorf("below the picture: %q, want %q", drawn.End, end)
	}
}

// A request is known again by what it does and to which key, whatever its token is: SET with NX
// is no poll of a SET that writes always, nor of one that returns what was there.
func TestRequestsAreKnownAgain(t *testing.T) {
	for one, others := range map[string][]string{
		"set k one nx px 500": {"set k two PX 600 NX"},
		"set k one get":       {"SET k two GET"},
		"set k one":           {"set k nx", "set k two px 500"},
		"get k":               {"get k"},
		"evalsha 77 1 k one":  {"evalsha 77 1 k two"},
	} {
		for _, other := range others {
			a := identityOf(one)
			b := identityOf(other)
			if a != b {
				t.Errorf("%q is known as %q, and %q as %q", one, a, other, b)
			}
		}
	}

	var known []string
	for _, request := range []string{
		"set k v", "set k v nx", "set k v xx", "set k v get", "set k v nx get",
		"set k v keepttl", "set l v",
	} {
		known = append(known, identityOf(request))
	}

	slices.Sort(known)
	if once := slices.Compact(slices.Clone(known)); len(once) != len(known) {
		t.Errorf("of these requests two are known as one: %q", known)
	}
}

// identityOf is the identity of a request with one command.
func identityOf(line string) string {
	words := strings.Fields(line)
	words[0] = strings.ToLower(words[0])
	return identity(&wire.Held{Commands: [][]string{words}})
}
