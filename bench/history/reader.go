package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/market"
)

// ErrNone is returned by Find for a folder without a history.
var ErrNone = errors.New("no history found")

// Find returns the folders at and below dir that hold a history or what is left of one, in lexical order. It returns
// ErrNone, wrapped, when there is none.
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

// Ended reports whether a folder holds a history that was finished. Only Read knows whether it is whole.
func Ended(dir string) bool {
	f, err := os.Open(filepath.Join(dir, manifest))
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	tail := make([]byte, min(info.Size(), longestSeal))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return false
	}
	last := tail[1+bytes.LastIndexByte(bytes.TrimSuffix(tail, []byte("\n")), '\n'):]
	return bytes.HasPrefix(last, []byte(sealPrefix)) && bytes.HasSuffix(last, []byte("\n"))
}

// Read reads the history in a folder. It returns ErrDamaged, wrapped, for one that is not whole, and ErrNone, wrapped,
// when there is nothing of a history.
func Read(dir string) (*History, error) {
	h := &History{FinalFunds: map[market.UserID]int64{}}
	path := filepath.Join(dir, manifest)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, without(dir, err)
	}
	files, err := h.readManifest(path)
	if err != nil {
		return nil, err
	}
	if err := unexpected(dir, files); err != nil {
		return nil, err
	}
	for i, file := range files {
		if err := h.readWorker(filepath.Join(dir, file.File), i+1, file); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(h.Final, func(a, b Found) int { return cmp.Compare(a.Item, b.Item) })
	return h, nil
}

// without tells what a folder is that has no manifest.
func without(dir string, missing error) error {
	if files, err := workerFiles(dir); err != nil || len(files) == 0 {
		return fmt.Errorf("%w: %w", ErrNone, missing)
	}
	return fmt.Errorf("%w: %w, which belongs to the workers' files beside it", ErrDamaged, missing)
}

// workerFiles are the names of the files of workers in a folder, in lexical order.
func workerFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if ofWorker(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// ofWorker reports whether a file's name is that of a worker's.
func ofWorker(name string) bool {
	ok, _ := filepath.Match(workerGlob, name) // the pattern is well formed
	return ok
}

// unexpected refuses a folder in which two histories are mixed.
func unexpected(dir string, files []finalRecord) error {
	names, err := workerFiles(dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(files, func(f finalRecord) bool { return f.File == name }) {
			return fmt.Errorf("%w: %s is not a file of this history", ErrDamaged, filepath.Join(dir, name))
		}
	}
	return nil
}

// maxAccounts bounds what a manifest is believed.
const maxAccounts = 1_000_000

// readManifest reads all but the workers' files, whose names it returns.
func (h *History) readManifest(path string) (files []finalRecord, err error) {
	_, err = readSealed(path, func(number int64, line []byte) error {
		if number == 1 {
			var first manifestHeader
			if err := decode(line, &first); err != nil {
				return err
			}
			h.Header = first.Header
			if first.Accounts < 1 || first.Accounts > maxAccounts {
				return fmt.Errorf("%d accounts", first.Accounts)
			}
			return checkFormat(first.Format)
		}
		var r finalRecord
		if err := decode(line, &r); err != nil {
			return err
		}
		if r.File != "" {
			files = append(files, r)
			if filepath.Base(r.File) != r.File || !strings.HasPrefix(r.File, "worker-") {
				return fmt.Errorf("%q is not the name of a worker's file", r.File)
			}
			return nil
		}
		return h.final(r)
	})
	return files, err
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

// readWorker reads the file of worker n, which must be the one that the manifest means.
func (h *History) readWorker(path string, n int, want finalRecord) error {
	got, err := readSealed(path, func(number int64, line []byte) error {
		if number > 1 {
			return h.record(n, line)
		}
		var first workerHeader
		if err := decode(line, &first); err != nil {
			return err
		}
		if want := (workerHeader{first.Format, h.Run, n, first.Role, h.Subject}); first != want {
			return fmt.Errorf("it is of %s, not of %s", first, want)
		}
		h.Workers = append(h.Workers, first.Role)
		return checkFormat(first.Format)
	})
	if err == nil && got != (seal{want.Lines, want.SHA256}) {
		err = damaged(path, got.lines+1, "it is not the file that %s was written with", manifest)
	}
	return err
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
