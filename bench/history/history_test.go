package history

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestReadIsWhatWasWritten(t *testing.T) {
	want := everything()
	dir := write(t, want)
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "worker-002-buyer.jsonl"))
	if err != nil || !strings.Contains(string(text), `"error":"read \"tcp\":\nEOF"`) {
		t.Errorf("why an outcome is unknown is not in the file: %v\n%s", err, text)
	}
	if _, err := Create(dir, want.Header); !errors.Is(err, ErrExists) {
		t.Errorf("a second history in the folder: %v, want %v", err, ErrExists)
	}
	if err := os.Remove(filepath.Join(dir, manifest)); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, want.Header); !errors.Is(err, ErrExists) {
		t.Errorf("among another history's workers: %v, want %v", err, ErrExists)
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v, want %v", err, ErrNone)
	}
}

// TestDamaged: each damage is told with its file, and where it can be, its line.
func TestDamaged(t *testing.T) {
	const worker = "worker-001-seller.jsonl"
	edit := func(file string, change func(text string) string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			after := change(string(before))
			if after == string(before) {
				t.Fatal("nothing was changed")
			}
			if err := os.WriteFile(path, []byte(after), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace := func(old, new string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, new, 1) }
	}
	lines := func(text string) []string { return strings.SplitAfter(text, "\n") }
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		says   []string
	}{
		{"edited outcome", edit(worker, replace(`"outcome":"refused"`, `"outcome":"applied"`)),
			[]string{worker, "line 5", `outcome "applied" with reason "not_owned"`}},
		{"record taken out", edit(worker, func(s string) string {
			return strings.Join(append(lines(s)[:3], lines(s)[4:]...),
				"")
		}),
			[]string{worker, "line 6", "edited"}},
		{"half a last line", edit(worker, func(s string) string { return s[:len(s)-5] }),
			[]string{worker, "line 7", "cut short"}},
		{"no newline at the end", edit(worker, func(s string) string { return s[:len(s)-1] }), []string{worker, "cut short"}},
		{"no closing line", edit(worker, func(s string) string { return strings.Join(lines(s)[:6], "") }),
			[]string{worker, "line 6", "does not end a whole file"}},
		{"no record of a worker at all", edit(worker, func(s string) string { return lastLine(0) }),
			[]string{worker, "line 1", "whole file"}},
		{"empty", edit(worker, func(string) string { return "" }), []string{worker, "line 1", "does not end a whole file"}},
		{"something after the end", edit(worker, func(s string) string { return s + "{}\n" }), []string{worker, "line 7"}},
		{"not JSON", edit(worker, replace("{", "[")), []string{worker, "line 1", "cannot be read"}},
		{"a manifest's record taken out", edit(manifest, replace(lines(manifestOf(t))[3], "")), []string{manifest, "edited"}},
		{"manifest of a killed run", edit(manifest, func(s string) string { return lines(s)[0] }),
			[]string{manifest, "run was killed"}},
		{"no manifest", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, manifest)) },
			[]string{manifest, "belongs to the workers' files beside it"}},
		{"worker missing", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, worker)) }, []string{worker}},
		{"worker of another run", func(t *testing.T, dir string) {
			other := everything()
			other.Run = "other:"
			copyFile(t, filepath.Join(write(t, other), worker), filepath.Join(dir, worker))
		}, []string{worker, "line 1", "worker 1 of fine in run other:", "not of worker 1 of fine in run test"}},
		{"worker named twice", edit(manifest, replace("worker-002-buyer", "worker-001-seller")),
			[]string{manifest, "worker-001-seller.jsonl", "there twice"}},
		{"worker of another row of the run", func(t *testing.T, dir string) {
			other := everything()
			other.Subject = "watch"
			copyFile(t, filepath.Join(write(t, other), worker), filepath.Join(dir, worker))
		}, []string{worker, "line 1", "worker 1 of watch in run test", "not of worker 1 of fine in run test"}},
		{"item 0 in an inventory", edit(manifest, replace(`"items":[1]`, `"items":[0]`)),
			[]string{manifest, "there is no item 0"}},
		{"item 0 on the market", edit(manifest, replace(`[[2,1,9]]`, `[[0,1,9]]`)), []string{manifest, "there is no item 0"}},
		{"worker too many", func(t *testing.T, dir string) {
			copyFile(t, filepath.Join(dir, worker), filepath.Join(dir, "worker-009-buyer.jsonl"))
		}, []string{"worker-009-buyer.jsonl is not a file of this history"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := write(t, everything())
			c.damage(t, dir)
			h, err := Read(dir)
			if !errors.Is(err, ErrDamaged) || h != nil {
				t.Fatalf("Read: %v, %v; want %v", h, err, ErrDamaged)
			}
			for _, text := range append(c.says, "no verdict") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		})
	}
}

// manifestOf is the manifest of everything.
func manifestOf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(write(t, everything()), manifest))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestKilled: what a killed run leaves is damaged, with and without records in it.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, everything().Header)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Worker("seller"); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("killed at once: %v", err)
	}
	if err := w.Abandon(); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("abandoned: %v", err)
	}
	if Ended(dir) {
		t.Error("an abandoned history has an end")
	}
	if dir := write(t, everything()); !Ended(dir) {
		t.Error("a finished history has no end")
	}
}

// TestDiscarded: a history into which nothing was recorded is gone, and another can take its place.
func TestDiscarded(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		w, err := Create(dir, everything().Header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Worker("seller"); err != nil {
			t.Fatal(err)
		}
		if err := w.Discard(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Find(dir); !errors.Is(err, ErrNone) {
		t.Errorf("Find: %v, want %v", err, ErrNone)
	}
}

// TestFullDisk: a record that could not be written is told at the end.
func TestFullDisk(t *testing.T) {
	w, err := Create(t.TempDir(), everything().Header)
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Worker("seller")
	if err != nil {
		t.Fatal(err)
	}
	r.file.File.Close() // writes fail from here on
	for range 2000 {
		r.Listed(time.Now(), time.Now(), market.Listing{Item: 1, Seller: 1, Price: 1}, nil)
	}
	if err := w.Finish(market.Snapshot{}); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), r.name) {
		t.Errorf("Finish: %v, want a failure that names %s", err, r.name)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	if _, err := Find(root); !errors.Is(err, ErrNone) {
		t.Errorf("in an empty folder: %v, want %v", err, ErrNone)
	}
	var want []string
	for _, name := range []string{"1-fine-5x5", "2-watch-5x5"} {
		want = append(want, filepath.Join(root, name))
		if _, err := Create(filepath.Join(root, name), Header{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Find(root); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("found %v, %v; want %v", got, err, want)
	}
	if got, err := Find(want[0]); err != nil || len(got) != 1 {
		t.Errorf("found %v, %v in a folder that is one", got, err)
	}
	if got, err := Find(filepath.Join(want[0], manifest)); err != nil || len(got) != 1 || got[0] != want[0] {
		t.Errorf("found %v, %v at a manifest, want the folder it is in", got, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		testkit.Require(t, "symlinks", err.Error()) // Windows, without the right to
	}
	if got, err := Find(link); err != nil || !reflect.DeepEqual(got,
		[]string{filepath.Join(link, "1-fine-5x5"), filepath.Join(link, "2-watch-5x5")}) {
		t.Errorf("found %v, %v through a link", got, err)
	}
}

// TestFindWithoutManifest: a row of which only workers' files are left is found, and damaged.
func TestFindWithoutManifest(t *testing.T) {
	dir := write(t, everything())
	if err := os.Remove(filepath.Join(dir, manifest)); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(dir); err != nil || !reflect.DeepEqual(got, []string{dir}) {
		t.Errorf("found %v, %v; want %s", got, err, dir)
	}
}

// TestFolderOfAnyName: a folder's name is no pattern.
func TestFolderOfAnyName(t *testing.T) {
	source := write(t, everything())
	for _, name := range []string{"h[1]", "h["} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err != nil {
			t.Error(err)
		}
		copyFile(t, filepath.Join(dir, "worker-001-seller.jsonl"), filepath.Join(dir, "worker-009-buyer.jsonl"))
		if _, err := Read(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s with a file too many: %v, want %v", name, err, ErrDamaged)
		}
		if err := os.Remove(filepath.Join(dir, manifest)); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(dir, Header{}); !errors.Is(err, ErrExists) {
			t.Errorf("another history in %s: %v, want %v", name, err, ErrExists)
		}
	}
}

// TestRecorderAllocatesNothing: once its buffer has grown, which takes one record.
func TestRecorderAllocatesNothing(t *testing.T) {
	w, err := Create(t.TempDir(), Header{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Worker("buyer")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	end := start.Add(time.Millisecond)
	hold := lock.Holding{Name: "market", Called: start, Acquired: start, Releasing: end, Released: end, Fence: 1 << 40}
	record := func() {
		r.Purchased(start, end, market.Order{Item: 1 << 40, Seller: 1 << 30, Buyer: 1 << 30, Price: 100}, nil)
		r.Listed(start, end, market.Listing{Item: 1 << 40, Seller: 1 << 30, Price: 100}, market.ErrNotOwned)
		r.Minted(start, end, 1<<40, 1<<30, nil)
		r.Held(hold)
	}
	record()
	if n := testing.AllocsPerRun(5000, record); n != 0 {
		t.Errorf("a record of each kind allocates %v times", n)
	}
	if err := w.Finish(market.Snapshot{}); err != nil {
		t.Fatal(err)
	}
}

// FuzzRead: no file is a reason to panic, what is not accepted is damaged, and a file that was cut short is never
// accepted.
func FuzzRead(f *testing.F) {
	dir := write(f, everything())
	names := []string{manifest, "worker-001-seller.jsonl", "worker-002-buyer.jsonl"}
	whole := fstest.MapFS{}
	for i, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		whole[name] = &fstest.MapFile{Data: text}
		f.Add(uint8(i), text)
		for cut := range 40 {
			f.Add(uint8(i), text[:len(text)*cut/40])
		}
		f.Add(uint8(i), bytes.Replace(text, []byte(":4"), []byte(":5"), 1))
		f.Add(uint8(i), append(bytes.Clone(text), '\n'))
	}
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		name := names[int(which)%len(names)]
		changed := maps.Clone(whole)
		changed[name] = &fstest.MapFile{Data: text}
		err := reader{changed, "", &History{FinalFunds: map[market.UserID]int64{}}}.read()
		original := whole[name].Data
		cut := len(text) < len(original) && bytes.HasPrefix(original, text)
		if bytes.Equal(text, original) && err != nil || cut && err == nil {
			t.Errorf("cut short %t, but Read: %v", cut, err)
		}
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%v is not %v", err, ErrDamaged)
		}
	})
}
