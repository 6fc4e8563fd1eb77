package program

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
)

// CPU is the processor time that the program has used since it was started, with all the
// processes that it has started, and their guardian. It is not known once the program was
// closed.
//
// Of what has ended the kernel adds the time to that of whoever has waited for it: its parent
// or, if that has ended before, the guardian. Only what ended unseen is not counted, because
// its parent ignores how its children end (SIGCHLD).
func (p *Child) CPU() (used time.Duration, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return 0, false
	}

	guardian := p.cmd.Process.Pid
	// A process that is waited for in between would be counted twice, or not at all. A
	// program that starts a process for each purchase may do that in every look: the last one
	// counts then.
	const looks = 10
	for range looks {
		before := descendants(guardian)
		used = 0
		for _, pid := range append(before, guardian) {
			used += cpuOf(pid)
		}
		if slices.Equal(before, descendants(guardian)) {
			break
		}
	}
	return used, true
}

// cpuOf is the processor time of a process and of its children that it has waited for.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // it has ended, and was waited for
	}

	// Behind the name, which may hold anything, stand the state and 10 fields, and then utime,
	// stime, cutime and cstime, as proc(5) has them.
	const first, last = 11, 15
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	ticks := 0.0
	for _, field := range fields[min(first, len(fields)):min(last, len(fields))] {
		n, _ := strconv.ParseFloat(field, 64) // the kernel writes numbers
		ticks += n
	}
	return time.Duration(ticks / cpu.ClocksPerSec * float64(time.Second))
}
