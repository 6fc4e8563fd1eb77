package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/marketsim/marketsim/market"
)

// The files of a history.
const (
	manifest   = "history.jsonl"
	workerGlob = "worker-*.jsonl"
	format     = "marketsim history 1"
)

// ErrExists is returned by Create for a folder that already holds a history.
var ErrExists = errors.New("folder already holds a history")

// A Writer records the history of one row into a folder. Its methods are not safe for concurrent use; each Recorder
// serves one worker, beside the others.
type Writer struct {
	dir      string
	header   Header
	manifest *sealed
	workers  []*Recorder
}

// manifestHeader is the first line of the manifest.
type manifestHeader struct {
	Format string `json:"format"`
	Header
}

// Create opens a history in a folder, which is made if it does not exist. It returns ErrExists, wrapped, when there is
// a history, whole or not, in it. Time 0 of the history is h.Began, or now if that is zero.
func Create(dir string, h Header) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	switch files, err := workerFiles(dir); {
	case err != nil:
		return nil, fmt.Errorf("create history: %w", err)
	case len(files) > 0:
		return nil, fmt.Errorf("%w: %s", ErrExists, filepath.Join(dir, files[0]))
	}
	file, err := createSealed(filepath.Join(dir, manifest))
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: %s", ErrExists, filepath.Join(dir, manifest))
	}
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	if h.Began.IsZero() {
		h.Began = time.Now()
	}
	w := &Writer{dir: dir, header: h, manifest: file}
	w.add(manifestHeader{format, h})
	return w, nil
}

// Worker opens the file of one more worker: a seller, a buyer or a browser. A nil Writer has nil Recorders.
func (w *Writer) Worker(role string) (*Recorder, error) {
	if w == nil {
		return nil, nil
	}
	name := fmt.Sprintf("worker-%03d-%s.jsonl", len(w.workers)+1, role)
	file, err := createSealed(filepath.Join(w.dir, name))
	if err != nil {
		return nil, fmt.Errorf("create history of a %s: %w", role, err)
	}
	r := &Recorder{name: name, file: file, began: w.header.Began}
	w.workers = append(w.workers, r)
	r.file.line(line(workerHeader{format, w.header.Run, len(w.workers), role, w.header.Subject}))
	return r, nil
}

// workerHeader is the first line of a worker's file.
type workerHeader struct {
	Format  string `json:"format"`
	Run     string `json:"run"`
	Worker  int    `json:"worker"`
	Role    string `json:"role"`
	Subject string `json:"subject"`
}

func (h workerHeader) String() string {
	return fmt.Sprintf("worker %d of %s in run %s", h.Worker, h.Subject, h.Run)
}

// The records of the manifest: one of them a line.
type finalRecord struct {
	File   string `json:"file,omitempty"` // a worker's
	Lines  int64  `json:"lines,omitempty"`
	SHA256 string `json:"sha256,omitempty"`

	Account market.UserID `json:"account,omitempty"`
	Funds   *int64        `json:"funds,omitempty"` // left out: the account is gone

	Inventory market.UserID   `json:"inventory,omitempty"`
	Items     []market.ItemID `json:"items,omitempty"`

	Listings [][3]int64 `json:"listings,omitempty"` // item, seller, price
	Stray    *string    `json:"stray,omitempty"`    // in the inventory, or on the market
}

// Finish adds what the market held when every worker had gone, and closes all files. It returns the first failure to
// write, of any worker: the history is then not whole, and Read says so.
func (w *Writer) Finish(final market.Snapshot) error {
	var errs []error
	for _, r := range w.workers {
		s, err := r.file.close()
		if err != nil {
			errs = append(errs, fmt.Errorf("record %s: %w", r.name, err))
		}
		w.add(finalRecord{File: r.name, Lines: s.lines, SHA256: s.sum})
	}
	if len(errs) > 0 {
		return errors.Join(append(errs, w.manifest.abandon())...)
	}
	for id := market.UserID(1); id <= market.UserID(w.header.Accounts); id++ {
		record := finalRecord{Account: id}
		if funds, ok := final.Funds[id]; ok {
			record.Funds = &funds
		}
		w.add(record)
	}
	for _, id := range slices.Sorted(maps.Keys(final.Inventory)) {
		w.addInventory(id, slices.Sorted(maps.Keys(final.Inventory[id])))
	}
	w.addListings(final.Listings)
	if _, err := w.manifest.close(); err != nil {
		return fmt.Errorf("record %s: %w", manifest, err)
	}
	return nil
}

// addInventory adds the members of an inventory, in their order, those that are no items included.
func (w *Writer) addInventory(id market.UserID, members []market.ItemID) {
	n := dropped(members, func(m market.ItemID) bool { return m < 1 })
	for _, m := range members[:n] {
		member := strconv.FormatInt(int64(m), 10)
		w.add(finalRecord{Inventory: id, Stray: &member})
	}
	for items := range slices.Chunk(members[n:], market.BatchSize) {
		w.add(finalRecord{Inventory: id, Items: items})
	}
}

// addListings adds the market's members, those that are no listings included.
func (w *Writer) addListings(prices map[string]int64) {
	var listings [][3]int64
	for _, member := range slices.Sorted(maps.Keys(prices)) {
		item, seller, err := market.ParseMember(member)
		if err != nil || item < 1 || seller < 1 {
			w.add(finalRecord{Stray: &member})
			continue
		}
		listings = append(listings, [3]int64{int64(item), int64(seller), prices[member]})
	}
	for chunk := range slices.Chunk(listings, market.BatchSize) {
		w.add(finalRecord{Listings: chunk})
	}
}

// Abandon closes, instead of Finish, the files of a history that cannot be finished. Read will find it damaged.
func (w *Writer) Abandon() error {
	if w == nil {
		return nil
	}
	var errs []error
	for _, r := range w.workers {
		errs = append(errs, r.file.abandon())
	}
	return errors.Join(append(errs, w.manifest.abandon())...)
}

// Discard closes and removes, instead of Finish, the files of a history into which no worker recorded anything.
func (w *Writer) Discard() error {
	if w == nil {
		return nil
	}
	errs := []error{w.Abandon(), os.Remove(filepath.Join(w.dir, manifest))}
	for _, r := range w.workers {
		errs = append(errs, os.Remove(filepath.Join(w.dir, r.name)))
	}
	return errors.Join(errs...)
}

func (w *Writer) add(record any) { w.manifest.line(line(record)) }

// line is a record as a line. What is recorded can be encoded.
func line(record any) []byte {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}
