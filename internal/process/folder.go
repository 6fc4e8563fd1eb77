package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// A Folder is a temporary folder with a mark that says that it is in use: on Unix a file
// that is locked by this process and by those that inherit it, until all are gone,
// however they end. The next MakeFolder then removes what is left.
type Folder struct {
	Path string
	mark *os.File
}

const inUse = "in-use" // the name of the mark

// folderName matches the names of these folders, and none that a user would choose: an
// empty one is removed even if it has no mark, because a process that is killed before it
// marks its folder leaves one.
var folderName = regexp.MustCompile(`^marketsim-[a-z]+-[0-9]+\.tmp$`)

// MakeFolder makes a folder. The name says what it is for, in lower case letters.
func MakeFolder(name string) (*Folder, error) {
	all, _ := os.ReadDir(os.TempDir()) // what cannot be read stays
	for _, entry := range all {
		if folderName.MatchString(entry.Name()) {
			removeUnused(filepath.Join(os.TempDir(), entry.Name()))
		}
	}

	for again := 10; ; again-- { // another start may remove one that is not marked yet
		path, err := os.MkdirTemp("", "marketsim-"+name+"-*.tmp")
		if err != nil {
			return nil, fmt.Errorf("making a folder for %s: %w", name, err)
		}
		mark, err := markInUse(path)
		if err == nil {
			return &Folder{path, mark}, nil
		}
		mark.Close() // which may be nil
		err = errors.Join(err, os.RemoveAll(path))
		if again == 0 {
			return nil, fmt.Errorf("marking a folder for %s as in use: %w", name, err)
		}
	}
}

// Remove removes the folder.
func (f *Folder) Remove() error {
	f.mark.Close() // Windows removes no open file
	return removeFolder(f.Path)
}

// removeFolder removes a folder, its mark last: what a process that is killed
// then leaves is marked, or empty.
func removeFolder(path string) error {
	content, err := os.ReadDir(path)
	for _, entry := range content {
		if entry.Name() != inUse {
			err = errors.Join(err, os.RemoveAll(filepath.Join(path, entry.Name())))
		}
	}

	// Remove leaves a folder alone that somebody has put something into meanwhile.
	for _, last := range []string{filepath.Join(path, inUse), path} {
		if err == nil {
			err = os.Remove(last)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
