package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// children counts this process's child processes, dead ones that nobody waited for included.
func children(t *testing.T) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		// pid (name) state parent ...; a name may hold anything
		_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		var state string
		var parent int
		if _, err := fmt.Sscan(after, &state, &parent); err != nil {
			t.Fatal(err)
		}
		if parent == os.Getpid() {
			n++
		}
	}
	return n
}
