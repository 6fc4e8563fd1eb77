//go:build unix

package backend

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// detach gives the child a process group of its own, and a file that it keeps open, if that is not nil.
func detach(cmd *exec.Cmd, inherits *os.File) {
	cmd.SysProcAttr = attributes()
	if inherits != nil {
		cmd.ExtraFiles = []*os.File{inherits}
	}
}

// markInUse locks the folder's mark, which gets its name only then: one that is not locked is in use no more.
func markInUse(folder string) (*os.File, error) {
	mark, err := os.CreateTemp(folder, "")
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = os.Rename(mark.Name(), filepath.Join(folder, inUse))
	}
	return mark, err
}

// removeUnused removes the folder of a mark, unless it is in use or another user's.
func removeUnused(path string) {
	folder := filepath.Dir(path)
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		return
	}
	mark, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer mark.Close()
	if syscall.Flock(int(mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.RemoveAll(folder) // what cannot be removed now stays for the next start
	}
}

// terminate lets a process that is paused go on, because it could not end otherwise.
func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return resume(p)
}

func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
