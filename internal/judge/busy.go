package judge

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// busyMachine names the load of a machine that has had more to do than it has cores for,
// several times over: what was judged may then have come less far, or to another end. The
// programs are a part of that load.
func busyMachine() []string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	return busyNote(string(text), runtime.NumCPU())
}

// busyNote is what is said of a load, as /proc/loadavg has it, on some cores.
func busyNote(loadavg string, cores int) []string {
	var average float64
	if _, err := fmt.Sscan(strings.TrimSpace(loadavg), &average); err != nil || average < 3*float64(cores) {
		return nil
	}
	const busy = "this machine was busy: on average %.0f processes wanted to run on %d cores"
	return []string{fmt.Sprintf(busy, average, cores)}
}
