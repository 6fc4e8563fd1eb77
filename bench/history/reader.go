package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/marketsim/marketsim/market"
)

// ErrNone is returned by Find and Read for a folder without a history.
var ErrNone = errors.New("no history found")

// ErrDamaged is returned, wrapped with the file and the line, for a history that was cut short, that holds what no
// Recorder writes, or of which a file is missing. It gets no verdict.
var ErrDamaged = errors.New("history is damaged, and gets no verdict")

// Find returns the folders at and below dir that hold a history or a part of one, in lexical order. It returns ErrNone,
// wrapped, when there is none.
func Find(dir string) ([]string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != manifest && !ofWorker(entry.Name()) {
			return err
		}
		below, err := filepath.Rel(root, path)
		seen[filepath.Dir(filepath.Join(dir, below))] = true // as the caller calls it
		return err
	})
	found := slices.Sorted(maps.Keys(seen))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	case len(found) == 0:
		return nil, fmt.Errorf("%w: no %s in %s or below", ErrNone, manifest, dir)
	}
	return found, nil
}

// Ended reports whether a folder holds a history that was finished. Only Read knows whether all its files are whole.
func Ended(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, manifest))
	return err == nil && bytes.HasSuffix(text, []byte("\n"+lastLine(bytes.Count(text, []byte("\n"))-1)))
}

// Read reads the history in a folder. It returns ErrDamaged, wrapped, for one that is not whole, and ErrNone, wrapped,
// when there is nothing of a history.
func Read(dir string) (*History, error) {
	r := reader{os.DirFS(dir), filepath.ToSlash(dir), &History{FinalFunds: map[market.UserID]int64{}}}
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.h, nil
}

// A reader reads a history from the files of a folder.
type reader struct {
	files fs.FS
	dir   string // the folder's name, for messages
	h     *History
}

func (r reader) read() error {
	there, err := workerFiles(r.files)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNone, err)
	}
	if _, err := fs.Stat(r.files, manifest); errors.Is(err, fs.ErrNotExist) {
		if len(there) == 0 {
			return fmt.Errorf("%w: no %s in %s", ErrNone, manifest, r.dir)
		}
		return fmt.Errorf("%w: %s has no %s, which belongs to the workers' files beside it", ErrDamaged, r.dir, manifest)
	}
	named, err := r.manifest()
	if err != nil {
		return err
	}
	for _, name := range there {
		if !slices.Contains(named, name) {
			return fmt.Errorf("%w: %s is not a file of this history", ErrDamaged, path.Join(r.dir, name))
		}
	}
	for i, name := range named {
		if err := r.worker(name, i+1); err != nil {
			return err
		}
	}
	slices.SortStableFunc(r.h.Final, func(a, b Found) int { return cmp.Compare(a.Item, b.Item) })
	return nil
}

// workerFiles are the names of the files of workers in a folder, in lexical order.
func workerFiles(folder fs.FS) (names []string, err error) {
	entries, err := fs.ReadDir(folder, ".")
	for _, entry := range entries {
		if ofWorker(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// ofWorker reports whether a file's name is that of a worker's.
func ofWorker(name string) bool {
	ok, _ := path.Match(workerGlob, name) // the pattern is well formed
	return ok
}

// lines hands each line of a file but the last, numbered from 1, to see. A failure wraps ErrDamaged.
func (r reader) lines(name string, see func(number int, line []byte) error) error {
	f, err := r.files.Open(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer f.Close()
	damaged := func(line int, format string, args ...any) error {
		return fmt.Errorf("%w: %s, line %d: %s", ErrDamaged, path.Join(r.dir, name), line, fmt.Sprintf(format, args...))
	}
	in := bufio.NewReaderSize(f, 1<<20)
	var last []byte // the line before the one that is read
	for number := 0; ; number++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0 && number > 1 && string(last) == lastLine(number-1):
			return nil
		case err == io.EOF && len(line) == 0:
			return damaged(max(1, number),
				"it does not end a whole file: the run was killed, or the file was cut short or edited")
		case err != nil:
			return damaged(number+1, "it has no end: the file was cut short (%v)", err)
		case number > 0:
			if err := see(number, last); err != nil {
				return damaged(number, "%v", err)
			}
		}
		last = append(last[:0], line...)
	}
}

// maxAccounts bounds how many accounts a manifest may claim.
const maxAccounts = 1_000_000

// manifest reads all but the workers' files, whose names it returns.
func (r reader) manifest() (names []string, err error) {
	err = r.lines(manifest, func(number int, line []byte) error {
		if number == 1 {
			var first manifestHeader
			if err := decode(line, &first); err != nil {
				return err
			}
			r.h.Header = first.Header
			if first.Accounts < 1 || first.Accounts > maxAccounts {
				return fmt.Errorf("%d accounts", first.Accounts)
			}
			return checkFormat(first.Format)
		}
		var record finalRecord
		if err := decode(line, &record); err != nil {
			return err
		}
		if record.File == "" {
			return r.h.final(record)
		}
		if !ofWorker(record.File) || slices.Contains(names, record.File) {
			return fmt.Errorf("%q is not the name of a worker's file, or there twice", record.File)
		}
		names = append(names, record.File)
		return nil
	})
	return names, err
}

// final notes what the market held at the end.
func (h *History) final(r finalRecord) error {
	switch {
	case r.Account > 0:
		if r.Account > market.UserID(h.Accounts) {
			return fmt.Errorf("there is no account %d", r.Account)
		}
		if r.Funds != nil {
			h.FinalFunds[r.Account] = *r.Funds
		}
	case r.Stray != nil:
		h.Strays = append(h.Strays, Stray{r.Inventory, *r.Stray})
	case r.Inventory > 0:
		for _, item := range r.Items {
			if item < 1 {
				return fmt.Errorf("there is no item %d", item)
			}
			h.Final = append(h.Final, Found{Item: item, User: r.Inventory})
		}
	case r.Listings != nil:
		for _, l := range r.Listings {
			if l[0] < 1 || l[1] < 1 {
				return fmt.Errorf("there is no item %d of seller %d", l[0], l[1])
			}
			h.Final = append(h.Final, Found{Item: market.ItemID(l[0]), User: market.UserID(l[1]), Listed: true, Price: l[2]})
		}
	default:
		return errors.New("it is no record of a manifest")
	}
	return nil
}

// worker reads the file of worker n.
func (r reader) worker(name string, n int) error {
	return r.lines(name, func(number int, line []byte) error {
		if number > 1 {
			return r.h.record(n, line)
		}
		var first workerHeader
		if err := decode(line, &first); err != nil {
			return err
		}
		if want := (workerHeader{first.Format, r.h.Run, n, first.Role, r.h.Subject}); first != want {
			return fmt.Errorf("it is of %s, not of %s", first, want)
		}
		r.h.Workers = append(r.h.Workers, first.Role)
		return checkFormat(first.Format)
	})
}

func checkFormat(found string) error {
	if found != format {
		return fmt.Errorf("format %q is not %q, which this marketsim reads", found, format)
	}
	return nil
}

func decode(line []byte, into any) error {
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	return nil
}
