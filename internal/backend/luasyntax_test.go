package backend_test

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
)

// TestCheckLua: what Lua cannot read is refused with its line, and nothing else is.
func TestCheckLua(t *testing.T) {
	for _, script := range []string{
		"return 1", "", "-- nothing", "#!lua flags=no-writes\nreturn 1", "return redis.call('GET', KEYS[1])",
	} {
		if err := backend.CheckLua(script); err != nil {
			t.Errorf("%q: %v", script, err)
		}
	}

	for script, says := range map[string]string{
		"return 1\nif then\nend": "line:2",
		"return return":          "syntax error",
		"local x = 'open":        "unterminated string",
	} {
		if err := backend.CheckLua(script); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error that says %q", script, err, says)
		}
	}
}
