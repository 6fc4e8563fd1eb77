package program

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Each program has a guardian: a process between this one and the program, which is this
// executable once more. It starts the program, is the parent of whatever that leaves
// behind (Linux calls this a subreaper), whichever session or group it is in and whatever
// its environment, and kills all of it when its lifeline ends: a pipe of which this process
// holds the other end, and which the kernel closes if this process is killed.

// guardianName is the argument 0 by which a process knows that it is a guardian. Behind it
// come the path of the program and the program's own arguments, from its argument 0 on.
const guardianName = "marketsim-guardian"

// The files that a guardian inherits besides those of the program.
const (
	lifelineFile = 3
	reportFile   = 4
)

// guardianLimit is how long a guardian tries to kill what is left. A process of another
// user, or one that waits for a broken disk, cannot be killed. It is less than waitLimit, after
// which Child.Wait kills the guardian itself.
const guardianLimit = 5 * time.Second

// init turns a process that was started as a guardian into one. A function that main calls
// would not do: where a test's main forgot it, a guardian would run all tests again.
func init() {
	if os.Args[0] == guardianName && len(os.Args) > 2 {
		os.Exit(guard(os.Args[1], os.Args[2:]))
	}
}

// startGuarded starts a command with a guardian, which gets the same standard files, and
// returns the process id of the program. From then on cmd is the guardian's process: the
// caller closes lifeline, with which the guardian ends, and waits for cmd.
func startGuarded(cmd *exec.Cmd) (pid int, lifeline io.Closer, err error) {
	if cmd.Err != nil {
		return 0, nil, cmd.Err // the program was not found, or must not be run
	}
	theirs, ours, errLifeline := os.Pipe()
	told, report, errReport := os.Pipe()
	defer theirs.Close() // which may be nil, as may the others
	defer told.Close()
	err = errors.Join(errLifeline, errReport)

	if err == nil {
		cmd.Args = append([]string{guardianName, cmd.Path}, cmd.Args...)
		cmd.Path = "/proc/self/exe" // also when the executable has been built anew meanwhile
		// In the order in which lifelineFile and reportFile number them.
		cmd.ExtraFiles = []*os.File{theirs, report}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of the reach of a Ctrl-C
		err = cmd.Start()
	}
	report.Close() // or its end would not be seen
	if err != nil {
		ours.Close()
		return 0, nil, err
	}

	pid, err = readStart(told)
	if err != nil {
		ours.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // how it ended does not matter
	}
	return pid, ours, err
}

// startLimit is how long a guardian may take to start a program: the machine may be busy.
const startLimit = 30 * time.Second

// readStart reads what a guardian reports: the program's process id, or the number of an
// error.
func readStart(report *os.File) (pid int, err error) {
	err = report.SetReadDeadline(time.Now().Add(startLimit))
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fscan(report, &pid)
	switch {
	case err != nil:
		return 0, fmt.Errorf("its guardian does not report the start: %w", err)
	case pid < 0:
		return 0, syscall.Errno(-pid)
	}
	return pid, nil
}

// guard starts a program, reports its process id or why it could not be started, and returns
// when the lifeline has ended and nothing of the program is left.
func guard(path string, args []string) (exit int) {
	// The program is a child of this thread, and dies with it. Children that it leaves
	// become those of a process's first thread, which this is.
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // what reapOrphans and killAll allocate is little, and stays
	syscall.CloseOnExec(lifelineFile)
	syscall.CloseOnExec(reportFile)
	ends := make(chan os.Signal, 1)
	children := make(chan os.Signal, 1) // one signal is enough: reapOrphans looks at all children
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(children, syscall.SIGCHLD)

	// Before ForkExec, so that whatever the program leaves behind becomes a child of this process.
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	var pid int
	if err == nil {
		pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{
			Env:   os.Environ(),
			Files: []uintptr{0, 1, 2},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		})
	}
	if err == nil {
		err = releaseFiles() // the program's output ends when its own processes do
	}
	reportStart(pid, err)
	if err != nil {
		return killAll()
	}

	lifeline := make(chan struct{})
	go awaitEnd(lifeline)
	for {
		select {
		case <-children:
			reapOrphans(pid)
		case <-lifeline:
			return killAll()
		case <-ends:
			return killAll()
		}
	}
}

// reportStart tells who started the guardian the program's process id, or the number of err,
// which a system call has returned, as a negative number.
func reportStart(pid int, err error) {
	if err != nil {
		number, _ := errors.AsType[syscall.Errno](err)
		pid = -int(cmp.Or(number, syscall.EIO))
	}
	report := os.NewFile(reportFile, "report")
	_, _ = fmt.Fprintln(report, pid) // who does not read it is gone
	_ = report.Close()
}

// releaseFiles has the guardian hold none of the program's standard files.
func releaseFiles() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for standard := range 3 {
		err = errors.Join(err, unix.Dup3(int(null.Fd()), standard, 0))
	}
	return err
}

func awaitEnd(ended chan<- struct{}) {
	_, _ = io.Copy(io.Discard, os.NewFile(lifelineFile, "lifeline")) // an error is an end, too
	close(ended)
}

// reapOrphans forgets the processes that have ended, but not the program itself: as long
// as that is there, nobody else gets its process id, by which it is stopped and killed.
func reapOrphans(program int) {
	for _, child := range childrenOf(os.Getpid()) {
		if child != program {
			_, _ = syscall.Wait4(child, nil, syscall.WNOHANG, nil) // it may run
		}
	}
}

// killAll kills all descendants of the guardian until there are none: one may start another
// meanwhile. It returns 1 if some are left after guardianLimit.
func killAll() (exit int) {
	for end := time.Now().Add(guardianLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, pid := range descendants(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}

		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.ECHILD) {
				return 0
			}
			if err == nil && pid == 0 {
				break // those that are left have not ended yet
			}
		}
	}
	return 1
}
