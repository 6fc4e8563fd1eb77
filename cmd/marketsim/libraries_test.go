package main

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/reference"
)

// TestListKnowsLibraries by any of their names, as people write them, and tells what
// docs/libraries.md does and what was judged.
func TestListKnowsLibraries(t *testing.T) {
	t.Chdir(t.TempDir()) // as an installed program, without the source
	for _, l := range reference.Libraries() {
		for _, name := range append(l.Names, l.Name) {
			unbroken(marketsim(t, "list", strings.ToUpper(name)).exits(t, exitFine)).says(t,
				"library "+unmarked(l.Name), unmarked(l.Scheme), unmarked(l.Known), l.Code,
				"--scenario "+l.Scenario+" --lock "+l.Lock)
		}
	}
	for _, p := range reference.JudgedPrograms() {
		marketsim(t, "list", p.Name).exits(t, exitFine).says(t, "judged: "+p.Name+" ("+p.Library+")")
	}

	for name, says := range map[string][]string{
		"redis-py": {
			"marketsim's name for that: set-px:lost-reply=kept\n",
			"all that breaks it: marketsim list set-px:lost-reply=kept\n",
			"judged: redis-py (redis-py 4.3.4)\n", "judged: redis-py-watch", "judged: redis-py-script",
			"clock-independent          kept", "fenced                     not offered", "BROKEN PROMISE",
		},
		"Laravel":      {"library Laravel Cache::lock\n", "library Laravel Cache::lock without seconds\n", "judged: laravel"},
		"phpredis":     {"judged: laravel", "judged: symfony"},
		"Redisson":     {"library Redisson RLock\n", "the library was not run"},
		"redisson":     {"lock redisson\n", "library Redisson RLock\n"},
		"Node Redlock": {"redlock:clock=wall"},
	} {
		marketsim(t, "list", name).exits(t, exitFine).says(t, says...)
	}
}
