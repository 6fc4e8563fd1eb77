//go:build unix

package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// detach gives the child a process group of its own, and a file that it keeps open.
func detach(cmd *exec.Cmd, inherits *os.File) {
	cmd.SysProcAttr = attributes()
	cmd.ExtraFiles = []*os.File{inherits}
}

// markInUse makes the folder's mark and locks it. It fails if the folder is
// removed meanwhile.
func markInUse(folder string) (*os.File, error) {
	mark, err := os.OpenFile(filepath.Join(folder, inUse), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		_, err = os.Lstat(mark.Name()) // another process, which had locked it, may have removed it
	}
	return mark, err
}

// removeUnused removes a folder, unless it is in use or another user's. Without a mark
// it is removed if it is empty.
func removeUnused(folder string) {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		return
	}

	// If somebody has put a link or a pipe in its place, the link is not followed, and the pipe
	// does not block.
	mark, err := os.OpenFile(filepath.Join(folder, inUse), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		_ = syscall.Rmdir(folder)
	}
	if err != nil {
		return
	}
	defer mark.Close()

	// The lock is free once all processes that had the folder are gone, see Folder.
	if syscall.Flock(int(mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = removeFolder(folder) // what cannot be removed now stays for the next start
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
