package judge

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/marketsim/marketsim/internal/findings"
)

// machineLoad is the load of this machine; nil: it does not say. The programs that were judged
// are a part of it.
func machineLoad() *findings.MachineLoad {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	return loadOf(string(text), runtime.NumCPU())
}

// loadOf is a load as /proc/loadavg has it, on some cores.
func loadOf(loadavg string, cores int) *findings.MachineLoad {
	l := findings.MachineLoad{Cores: cores}
	if _, err := fmt.Sscan(strings.TrimSpace(loadavg), &l.Average); err != nil {
		return nil
	}
	return &l
}

// busyNote names the load of a machine that has had more to do than it has cores for, several
// times over: what was judged may then have come less far, or to another end.
func busyNote(l *findings.MachineLoad) []string {
	if l == nil || l.Average < 3*float64(l.Cores) {
		return nil
	}
	const busy = "this machine was busy: on average %.0f processes wanted to run on %d cores"
	return []string{fmt.Sprintf(busy, l.Average, l.Cores)}
}
