//go:build unix

package process_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/testkit"
)

// Of what has the name of a folder of ours, what is in use stays, and so does
// what may be somebody else's.
func TestMakeFolderRemovesWhatIsLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used := testkit.Must(process.MakeFolder("used"))(t)

	for name, file := range map[string]string{ // empty: none
		"marketsim-killed-1.tmp":   "",       // before it was marked
		"marketsim-killed-2.tmp":   "in-use", // before the mark was locked, or later
		"marketsim-theirs-3.tmp":   "notes",
		"marketsim-theirs-4":       "",
		"marketsim-theirs-2026-11": "in-use",
	} {
		err := os.Mkdir(filepath.Join(os.TempDir(), name), 0o700)
		if err == nil && file != "" {
			err = os.WriteFile(filepath.Join(os.TempDir(), name, file), nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	made := testkit.Must(process.MakeFolder("made"))(t)
	want := []string{
		filepath.Base(made.Path), "marketsim-theirs-2026-11", "marketsim-theirs-3.tmp", "marketsim-theirs-4",
		filepath.Base(used.Path),
	}
	if got := testkit.Folders(t); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}

	if err := errors.Join(used.Remove(), made.Remove()); err != nil {
		t.Error(err)
	}
	if got := testkit.Folders(t); !slices.Equal(got, want[1:4]) {
		t.Errorf("there are %q, want %q", got, want[1:4])
	}
}

// No start takes a folder that another one is about to mark for one that is left.
func TestFoldersMadeAtTheSameTime(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	made, errs := make([]*process.Folder, 100), make([]error, 100)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() { made[i], errs[i] = process.MakeFolder("busy") })
	}
	all.Wait()
	if n := len(testkit.Folders(t)); n != len(made) || errors.Join(errs...) != nil {
		t.Errorf("%d of %d folders are there, %v", n, len(made), errors.Join(errs...))
	}
	runtime.KeepAlive(made)
}
