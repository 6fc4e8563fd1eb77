package param_test

import (
	"testing"

	"github.com/marketsim/marketsim/strategies"
)

// FuzzSpec: what is accepted as a spec, parameters included, is spelled one way, and can
// be opened. It is here because what the tests of package strategies import takes
// minutes to compile for fuzzing.
func FuzzSpec(f *testing.F) {
	for _, text := range []string{
		"watch", "coarse:", "fine:setnx:poll=2ms:timeout=1h",
		"fine-wallet:poll=0.5s", "unsafe::", "watch:timeout=1ns",
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		spec, err := strategies.Builtin().Parse(text)
		if err != nil {
			return
		}

		again, err := strategies.Builtin().Parse(spec.String())
		if err != nil || again.String() != spec.String() {
			t.Errorf("Parse(%q) = %s, which parses to %s, %v", text, spec, again, err)
		}
		if _, closer, err := again.Open(strategies.Env{}); err != nil || closer == nil {
			t.Errorf("open %s: closer %v, %v", spec, closer, err)
		}
	})
}
