package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const mostLinks = 40 // on the way to a file, as for Linux

// followsNoLink refuses a path that leads through a symbolic link in a folder that
// everybody can write, such as /tmp: somebody else may have put it there, to have a file
// of the user's replaced. Linux refuses such links by itself where protected_symlinks is
// set, but for those of the user's own or of root: here whose it is does not count. What
// is not there yet leads nowhere.
func followsNoLink(path string) error {
	if runtime.GOOS == "windows" { // where the mode of a folder does not say who can write it
		return nil
	}
	const separator = string(filepath.Separator)
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		// Without filepath.Abs or Join, which drop "link/..": the system goes up from where the
		// link leads.
		path = here + separator + path
	}

	folder := separator // up to here there is no link any more
	left := strings.Split(path, separator)
	for links := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			folder = filepath.Dir(folder)
			continue
		}

		at := filepath.Join(folder, name)
		info, err := os.Lstat(at)
		if err != nil {
			return nil // whoever opens it says why that cannot be
		}
		if info.Mode()&os.ModeSymlink == 0 {
			folder = at
			continue
		}

		target, err := os.Readlink(at)
		if err != nil {
			return err
		}
		if everybodyWrites(folder) {
			return fmt.Errorf("%s is a link in a folder that everybody can write: name the place that it leads to, %s",
				at, target)
		}
		links++
		if links > mostLinks {
			return fmt.Errorf("%s leads through more than %d links", path, mostLinks)
		}
		if filepath.IsAbs(target) {
			folder = separator
		}
		left = append(strings.Split(target, separator), left...)
	}
	return nil
}

func everybodyWrites(folder string) bool {
	const byOthers = 0o002
	info, err := os.Stat(folder)
	return err == nil && info.Mode().Perm()&byOthers != 0
}

// takesResult refuses the path of a result that is there and is no plain file: a pipe
// would block at the end of everything.
func takesResult(path string) error {
	if err := followsNoLink(path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no plain file: remove it, or name another folder", path)
	}
	return nil
}

// takesFolder refuses the path of a folder that is there and is none.
func takesFolder(path string) error {
	if err := followsNoLink(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is no folder: name another place", path)
	}
	if _, is := os.Lstat(path); err != nil && is == nil {
		return fmt.Errorf("%s is a link that leads nowhere: remove it, or name another folder", path)
	}
	return nil
}
