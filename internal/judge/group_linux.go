package judge

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const stop, goOn, end = syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGKILL

// group gives a program a process group of its own. Only the program itself dies
// with the thread that started it.
func group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end} }

// A guardian is a process that kills programs when this one has been killed: all that
// have its mark in their environment, whatever group they are in.
type guardian struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	mark string
}

func newGuardian() (*guardian, error) {
	g := &guardian{mark: "MARKETSIM_JUDGED=" + rand.Text()}
	const script = `PATH="$PATH:/usr/bin:/bin"
while read -r nothing; do :; done
for environ in /proc/[0-9]*/environ; do
	grep -qsF "$0" "$environ" || continue
	process=${environ%/environ}
	kill -9 "${process#/proc/}"
done 2>/dev/null`
	g.cmd = exec.Command("/bin/sh", "-c", script, g.mark)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of the reach of a Ctrl-C
	var err error
	g.in, err = g.cmd.StdinPipe()
	if err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the guardian of programs: %w", err)
	}
	return g, nil
}

// close ends the input of the guardian, which then kills what is left, and waits for it.
func (g *guardian) close() error {
	closed := g.in.Close()
	_ = g.cmd.Wait() // its exit status means nothing
	return closed
}

// signal sends a signal to all processes of the group.
func (l *life) signal(s syscall.Signal) {
	if l != nil {
		_ = syscall.Kill(-l.cmd.Process.Pid, s) // the group may have ended
	}
}

// slices returns how long each thread of the program and its descendants has run, as
// text, and whether all wait now.
func (l *life) slices() (ran string, waits bool) { return threads(strconv.Itoa(l.cmd.Process.Pid)) }

func threads(pid string) (ran string, waits bool) {
	waits = true
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*")
	for _, task := range tasks {
		stat, err := os.ReadFile(task + "/stat")
		if err != nil {
			continue // it has ended
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		times, _ := os.ReadFile(task + "/schedstat")
		// It runs, or reads a disk.
		works := strings.HasPrefix(state, "R") || strings.HasPrefix(state, "D")
		ran, waits = ran+task+" "+string(times), waits && !works
		children, _ := os.ReadFile(task + "/children")
		for child := range strings.FieldsSeq(string(children)) {
			its, all := threads(child)
			ran, waits = ran+its, waits && all
		}
	}
	return ran, waits
}
