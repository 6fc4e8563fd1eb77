package program

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

// ownGroup gives a program a process group of its own. Only the program itself dies
// with the thread that started it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Pause stops all processes of the group, until Resume.
func (p *Child) Pause() { p.signal(syscall.SIGSTOP) }

// Resume has all processes of the group go on.
func (p *Child) Resume() { p.signal(syscall.SIGCONT) }

// Kill kills all processes of the group.
func (p *Child) Kill() { p.signal(syscall.SIGKILL) }

func (p *Child) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // the group may have ended
}

// Activity returns how long each thread of the program and its descendants has run, as
// text, and whether all wait now. If the text is the same as before, none has run.
func (p *Child) Activity() (ran string, waiting bool) {
	return activity(strconv.Itoa(p.cmd.Process.Pid))
}

func activity(pid string) (ran string, waiting bool) {
	waiting = true
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*")
	for _, thread := range threads {
		stat, err := os.ReadFile(thread + "/stat")
		if err != nil {
			continue // it has ended
		}

		// It runs, or reads a disk.
		_, state, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(state, "R") || strings.HasPrefix(state, "D") {
			waiting = false
		}
		times, _ := os.ReadFile(thread + "/schedstat")
		ran += thread + " " + string(times)

		children, _ := os.ReadFile(thread + "/children")
		for child := range strings.FieldsSeq(string(children)) {
			childRan, childWaiting := activity(child)
			ran += childRan
			waiting = waiting && childWaiting
		}
	}
	return ran, waiting
}

// A Guardian is a process that kills programs when this one has been killed: all that
// have its mark in their environment, whatever group they are in.
type Guardian struct {
	Mark string // an environment variable
	cmd  *exec.Cmd
	in   io.WriteCloser
}

// NewGuardian starts a Guardian.
func NewGuardian() (*Guardian, error) {
	const script = `PATH="$PATH:/usr/bin:/bin"
while read -r nothing; do :; done
for environ in /proc/[0-9]*/environ; do
	grep -qsF "$0" "$environ" || continue
	process=${environ%/environ}
	kill -9 "${process#/proc/}"
done 2>/dev/null`
	g := &Guardian{Mark: "MARKETSIM_JUDGED=" + rand.Text()}
	g.cmd = exec.Command("/bin/sh", "-c", script, g.Mark)
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

// Close ends the input of the guardian, which then kills what is left, and waits for it.
func (g *Guardian) Close() error {
	err := g.in.Close()
	_ = g.cmd.Wait() // its exit status means nothing
	return err
}
