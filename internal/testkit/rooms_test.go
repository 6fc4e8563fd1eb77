package testkit_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rooms are the folders of this module from the ground up: a package imports none of a
// room above its own. The longest name that fits a package counts.
var rooms = []struct {
	folder string
	floor  int
}{
	// What any room may use.
	{"internal/wire", 0}, {"internal/process", 0}, {"internal/wording", 0}, {"internal/stored", 0},
	{"results", 0},

	// What is traded, and on what.
	{"market", 1}, {"internal/marketstore", 1},
	{"internal/redisconn", 1}, {"internal/backend", 1},
	{"internal/servers", 2}, {"internal/testkit", 3}, {"internal/servers/serverstest", 3},

	// How it is made safe.
	{"strategies", 4}, {"internal/locking", 4}, {"internal/connect", 4}, {"internal/program", 4},

	// How safe it is.
	{"verify", 5}, {"internal/findings", 5}, {"internal/search", 5}, {"internal/suite", 5},
	{"internal/history", 5}, {"internal/fault", 5}, {"internal/judge", 5},

	// How fast it is.
	{"bench/result", 6}, {"internal/load", 6}, {"internal/runs", 6}, {"internal/reference", 6},
	{"internal/compare", 6},

	// How it is shown and run.
	{"bench", 7}, {"internal/view", 7}, {"bench/compare", 8}, {"cmd", 8},
}

func floorOf(folder string) (floor int, found bool) {
	longest := -1
	for _, r := range rooms {
		fits := folder == r.folder || strings.HasPrefix(folder, r.folder+"/")
		if fits && len(r.folder) > longest {
			longest, floor, found = len(r.folder), r.floor, true
		}
	}
	return floor, found
}

// What a file may import follows from the room that it is in. Tests may import
// what they like.
func TestImportsGoDown(t *testing.T) {
	const module = "github.com/marketsim/marketsim/"
	files, read := token.NewFileSet(), 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != "../.." {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}

		read++
		folder, err := filepath.Rel("../..", filepath.Dir(path))
		if err != nil {
			return err
		}

		here, known := floorOf(filepath.ToSlash(folder))
		if !known {
			t.Errorf("%s is in no room: name its folder in rooms", path)
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imported, ours := strings.CutPrefix(name, module)
			if !ours {
				continue
			}
			if there, _ := floorOf(imported); there > here {
				t.Errorf("%s imports %s, which is above it", path, imported)
			}
		}
		return nil
	})

	if err != nil {
		t.Fatal(err)
	}
	if read < 100 {
		t.Errorf("only %d files were read", read)
	}
}

// Who only measures links nothing that judges, draws or takes part in tests.
func TestMeasuringIsLight(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./bench")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list what bench links: %v", err)
	}

	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Errorf("bench links only %d packages, of which some were not found", len(packages))
	}
	for _, path := range packages {
		folder, _ := strings.CutPrefix(path, moduleName+"/")
		for _, heavy := range []string{
			"testing", "internal/view", "internal/suite", "internal/search", "verify/locktest",
		} {
			if folder == heavy {
				t.Errorf("bench links %s", path)
			}
		}
	}
}

// The check finds what it is for.
func TestFloors(t *testing.T) {
	for _, c := range []struct {
		from, to string
		up       bool
	}{
		{"internal/fault", "bench/result", true},
		{"internal/wire", "internal/backend", true},
		{"strategies/lock", "verify", true},
		{"market", "internal/servers", true},
		{"internal/load", "internal/history", false},
		{"internal/servers", "internal/backend", false},
		{"bench/result", "internal/stored", false},
		{"internal/history", "bench/result", true},
	} {
		from, _ := floorOf(c.from)
		to, _ := floorOf(c.to)
		if (to > from) != c.up {
			t.Errorf("%s on floor %d imports %s on floor %d: up should be %v", c.from, from, c.to, to, c.up)
		}
	}

	if _, known := floorOf("verifying"); known {
		t.Error("a folder of no room has a floor")
	}
}
