package history

import (
	"bufio"
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
	"github.com/marketsim/marketsim/strategies/lock"
)

// The files of a history.
const (
	manifest   = "history.jsonl"
	workerGlob = "worker-*.jsonl"
	format     = "marketsim history 2"
)

// ErrExists is returned by Create for a folder that already holds a history.
var ErrExists = errors.New("folder already holds a history")

// A Writer records the history of one row into a folder. Its methods are not safe for concurrent use; each Recorder
// serves one worker, beside the others.
type Writer struct {
	dir      string
	header   Header
	manifest *file
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
	switch files, err := workerFiles(os.DirFS(dir)); {
	case err != nil:
		return nil, fmt.Errorf("create history: %w", err)
	case len(files) > 0:
		return nil, fmt.Errorf("%w: %s", ErrExists, filepath.Join(dir, files[0]))
	}
	first, err := createFile(filepath.Join(dir, manifest))
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: %s", ErrExists, filepath.Join(dir, manifest))
	}
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	if h.Began.IsZero() {
		h.Began = time.Now()
	}
	w := &Writer{dir: dir, header: h, manifest: first}
	w.add(manifestHeader{format, h})
	return w, nil
}

// Worker opens the file of one more worker: a seller, a buyer or a browser. A nil Writer has nil Recorders.
func (w *Writer) Worker(role string) (*Recorder, error) {
	if w == nil {
		return nil, nil
	}
	name := fmt.Sprintf("worker-%03d-%s.jsonl", len(w.workers)+1, role)
	file, err := createFile(filepath.Join(w.dir, name))
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

// finalRecord is any record of the manifest. Each line sets the fields of one group.
type finalRecord struct {
	File string `json:"file,omitempty"` // a worker's

	Account market.UserID `json:"account,omitempty"`
	Funds   *int64        `json:"funds,omitempty"` // left out: the account is gone

	Inventory market.UserID   `json:"inventory,omitempty"`
	Items     []market.ItemID `json:"items,omitempty"`

	Listings [][3]int64 `json:"listings,omitempty"` // item, seller, price
	Stray    *string    `json:"stray,omitempty"`    // in the inventory, or on the market
}

// Finish adds what the market held when every worker had stopped, and closes all files. It returns the first failure to
// write, of any worker: the history is then not whole, and Read says so.
func (w *Writer) Finish(final market.Snapshot) error {
	var errs []error
	for _, r := range w.workers {
		if err := r.file.end(); err != nil {
			errs = append(errs, fmt.Errorf("record %s: %w", r.name, err))
		}
		w.add(finalRecord{File: r.name})
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
	if err := w.manifest.end(); err != nil {
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

// A file is lines of JSON, the last of which says how many there are before it.
type file struct {
	*os.File
	out   *bufio.Writer // keeps the first failure to write
	lines int
}

// createFile makes a file that must not exist.
func createFile(path string) (*file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &file{File: f, out: bufio.NewWriterSize(f, 64<<10)}, nil
}

// line writes one line, which ends in a newline.
func (f *file) line(text []byte) {
	f.lines++
	_, _ = f.out.Write(text) // Flush returns the failure
}

// end writes the last line, and closes the file.
func (f *file) end() error {
	_, _ = f.out.WriteString(lastLine(f.lines))
	return f.abandon()
}

// abandon closes the file; without a last line, nobody takes it for a whole one.
func (f *file) abandon() error { return errors.Join(f.out.Flush(), f.Close()) }

// lastLine is the last line of a file with so many before it.
func lastLine(lines int) string { return fmt.Sprintf("{\"lines\":%d}\n", lines) }

// A Recorder writes down what one worker did. A nil Recorder writes nothing. It allocates nothing, except for the text
// of an unknown outcome; failures to write are kept for Writer.Finish. It is not safe for concurrent use.
type Recorder struct {
	name  string
	file  *file
	began time.Time
	text  []byte // reused
}

// Minted records a batch of items; err is what market.Mint returned.
func (r *Recorder) Minted(start, end time.Time, first market.ItemID, owner market.UserID, err error) {
	if r == nil {
		return
	}
	r.begin("mint", start, end)
	r.number("first", int64(first))
	r.number("user", int64(owner))
	r.outcome(err)
}

// Listed records a listing; err is what List returned.
func (r *Recorder) Listed(start, end time.Time, l market.Listing, err error) {
	if r == nil {
		return
	}
	r.begin("list", start, end)
	r.number("item", int64(l.Item))
	r.number("seller", int64(l.Seller))
	r.number("price", l.Price)
	r.outcome(err)
}

// Purchased records an order; err is what Purchase returned.
func (r *Recorder) Purchased(start, end time.Time, o market.Order, err error) {
	if r == nil {
		return
	}
	r.begin("purchase", start, end)
	r.number("item", int64(o.Item))
	r.number("seller", int64(o.Seller))
	r.number("buyer", int64(o.Buyer))
	r.number("price", o.Price)
	r.outcome(err)
}

// Held records a lock that was held and released.
func (r *Recorder) Held(h lock.Holding) {
	if r == nil {
		return
	}
	r.text = append(r.text[:0], `{"op":"hold","name":`...)
	r.quote(h.Name)
	r.flag("shared", h.Shared)
	r.number("called", r.since(h.Called))
	r.number("acquired", r.since(h.Acquired))
	r.number("releasing", r.since(h.Releasing))
	r.number("released", r.since(h.Released))
	if h.Fence != 0 {
		r.number("fence", h.Fence)
	}
	r.flag("lost", h.Lost)
	r.flag("noticed", h.Noticed)
	r.end()
}

func (r *Recorder) begin(op string, start, end time.Time) {
	r.text = append(r.text[:0], `{"op":"`...)
	r.text = append(r.text, op...)
	r.text = append(r.text, '"')
	r.number("start", r.since(start))
	r.number("end", r.since(end))
}

func (r *Recorder) outcome(err error) {
	switch reason := market.Reason(err); {
	case err == nil:
		r.text = append(r.text, `,"outcome":"applied"`...)
	case reason != "":
		r.text = append(r.text, `,"outcome":"refused","reason":`...)
		r.quote(reason)
	default:
		r.text = append(r.text, `,"outcome":"unknown","error":`...)
		r.quote(err.Error())
	}
	r.end()
}

func (r *Recorder) end() {
	r.text = append(r.text, '}', '\n')
	r.file.line(r.text)
}

func (r *Recorder) since(t time.Time) int64 { return t.Sub(r.began).Nanoseconds() }

func (r *Recorder) number(name string, n int64) {
	r.field(name)
	r.text = strconv.AppendInt(r.text, n, 10)
}

// flag writes a field that is left out when it is false.
func (r *Recorder) flag(name string, set bool) {
	if set {
		r.field(name)
		r.text = append(r.text, "true"...)
	}
}

func (r *Recorder) field(name string) {
	r.text = append(r.text, ',', '"')
	r.text = append(r.text, name...)
	r.text = append(r.text, '"', ':')
}

// quote writes a JSON string.
func (r *Recorder) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // a string can be encoded
			r.text = append(r.text, text...)
			return
		}
	}
	r.text = append(r.text, '"')
	r.text = append(r.text, s...)
	r.text = append(r.text, '"')
}
