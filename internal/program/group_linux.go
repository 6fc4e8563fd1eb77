package program

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Pause stops all processes of the program, until Resume.
func (p *Child) Pause() { p.signal(syscall.SIGSTOP) }

// Resume has all processes of the program go on.
func (p *Child) Resume() { p.signal(syscall.SIGCONT) }

// Kill kills all processes of the program, also those that have left its group. What one
// of them starts meanwhile the guardian kills.
func (p *Child) Kill() {
	p.signal(syscall.SIGKILL)
	p.release()
}

// signal sends a signal to the group of the program at once, and then to what has left it.
func (p *Child) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released { // its process id may be another's by now
		return
	}
	_ = syscall.Kill(-p.pid, s) // the group may have ended

	// What the program starts or leaves is below its guardian, p.cmd. Look until none is new.
	told := map[int]bool{}
	for found := true; found; {
		found = false
		for _, pid := range descendants(p.cmd.Process.Pid) {
			if told[pid] {
				continue
			}
			told[pid] = true
			found = true
			if group, err := syscall.Getpgid(pid); err == nil && group != p.pid {
				_ = syscall.Kill(pid, s) // it may have ended
			}
		}
	}
}

// Activity returns how long each thread of the program and its descendants has run, as
// text, and whether all wait now. If the text is the same as before, none has run.
func (p *Child) Activity() (ran string, waiting bool) {
	waiting = true
	for _, pid := range childrenOf(p.cmd.Process.Pid) {
		childRan, childWaiting := activity(strconv.Itoa(pid))
		ran += childRan
		waiting = waiting && childWaiting
	}
	return ran, waiting
}

// activity is Activity of one process and its descendants. A thread that begins or ends
// changes the text, too.
func activity(pid string) (ran string, waiting bool) {
	waiting = true
	for _, thread := range threadsOf(pid) {
		stat := readSmall(thread + "/stat")
		if stat == "" {
			continue // it has ended
		}

		// It runs, or reads a disk.
		_, state, _ := strings.Cut(stat, ") ")
		if strings.HasPrefix(state, "R") || strings.HasPrefix(state, "D") {
			waiting = false
		}
		ran += thread + " " + readSmall(thread+"/schedstat")

		for _, child := range childrenOfThread(thread) {
			childRan, childWaiting := activity(strconv.Itoa(child))
			ran += childRan
			waiting = waiting && childWaiting
		}
	}
	return ran, waiting
}

// childrenOf are the children of a guardian: those of its first thread.
func childrenOf(guardian int) []int {
	return childrenOfThread(fmt.Sprintf("/proc/%d/task/%[1]d", guardian))
}

func childrenOfThread(thread string) (all []int) {
	for child := range strings.FieldsSeq(readSmall(thread + "/children")) {
		pid, err := strconv.Atoi(child)
		if err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// threadsOf are the folders of a process's threads.
func threadsOf(pid string) (all []string) {
	tasks := "/proc/" + pid + "/task"
	folder, err := os.Open(tasks)
	if err != nil {
		return nil // it has ended
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	slices.Sort(names) // Activity's text is compared with that of another look
	for _, name := range names {
		all = append(all, tasks+"/"+name)
	}
	return all
}

// readSmall is what a small file of /proc holds; empty: what it tells of has ended. It is
// called thousands of times a second, and takes half of the system calls of os.ReadFile.
func readSmall(file string) string {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)

	var text [4096]byte
	n, _ := syscall.Read(fd, text[:])
	return string(text[:max(0, n)])
}

// descendants are the children of a process, their children, and so on.
func descendants(pid int) (all []int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, thread := range threads {
		for _, child := range childrenOfThread(thread) {
			all = append(all, child)
			all = append(all, descendants(child)...)
		}
	}
	return all
}

// A Guardian sees to it that nothing is left of the programs of a search. Each program has
// a process for that, see guard. What has killed that process is left to Close.
type Guardian struct {
	Mark string // an environment variable
}

// NewGuardian returns a Guardian.
func NewGuardian() (*Guardian, error) {
	return &Guardian{Mark: "MARKETSIM_JUDGED=" + rand.Text()}, nil
}

// Close kills the processes with the mark in their environment. Only Launch.environment puts
// it there, for a program and its guardian: this process must not have it in its own.
func (g *Guardian) Close() error {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environments {
		environment, failed := os.ReadFile(file) // another user's cannot be read
		if failed != nil || !bytes.Contains(environment, []byte(g.Mark)) {
			continue
		}

		pid, failed := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if failed == nil {
			failed = syscall.Kill(pid, syscall.SIGKILL)
		}
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) && !errors.Is(failed, syscall.ESRCH) {
			failed = fmt.Errorf("killing what a judged program has left, process %d: %w", pid, failed)
			err = errors.Join(err, failed)
		}
	}
	return err
}

// unread reports whether a pipe has bytes that were not read.
func unread(pipe *os.File) bool {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	_ = raw.Control(func(fd uintptr) { // an error: it is closed
		n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	})
	return n > 0
}
