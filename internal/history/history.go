// Package history records what each client of a market did, which answer it got, and
// when; and it judges the record: is there an order of these operations, one after the
// other, that explains every answer?
//
// A history is a file of JSON lines: a header ([Create]), the operations of all workers
// and the locks that they held ([Recorder]), in no order, and the market at the end
// ([Writer.Finish]). Times are nanoseconds since the row began:
//
//	{"op":{"worker":1,"kind":"mint","start":1200,"end":90100,"item":1,"seller":1,"outcome":"unknown","error":"EOF"}}
//	{"hold":{"worker":4,"name":"17","called":1,"acquired":2,"releasing":3,"released":4,"fence":7}}
//
// [Read] refuses with [ErrDamaged] a history that was cut short and a line that
// is not, to the byte, as a Recorder writes it. A number or a text that was
// changed into another one may pass.
//
// [Check] judges five parts, each by itself: what happened to each item, against
// porcupine; each account's opening, sales and purchases against what it holds at the
// end; that an account that could run out paid with coins that it had; that no two held
// one lock at a time; and that fencing tokens grow. An operation whose reply was lost may
// have been applied at any later time, or never. That a purchase changes an item and two
// accounts at the same instant is not checked.
package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
)

// A History is all that was recorded of one row.
type History struct {
	Header
	Ops   []Op
	Holds []LockHold
	Final market.Snapshot // when every worker had stopped
}

// A Header says what was recorded.
type Header struct {
	Run      string    `json:"run"` // the prefix of the run's keys
	Subject  string    `json:"subject"`
	Mix      string    `json:"mix"`
	Seed     uint64    `json:"seed"`
	Accounts int       `json:"accounts"` // numbered from 1
	Funds    int64     `json:"funds"`    // coins that each account opened with
	Began    time.Time `json:"began"`    // time 0 of the records
}

// An Outcome is what a client knows of an operation.
type Outcome string

// The outcomes. A refused operation was certainly not applied.
const (
	Applied Outcome = "applied"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown"
)

// An OpKind is what an operation does.
type OpKind string

// The operations. Mint brings market.BatchSize items into being at once.
const (
	Mint     OpKind = "mint"
	List     OpKind = "list"
	Purchase OpKind = "purchase"
)

// An Op is one operation of a worker.
type Op struct {
	Worker int    `json:"worker"` // from 1
	Kind   OpKind `json:"kind"`
	Start  int64  `json:"start"` // ns since the row began
	End    int64  `json:"end"`
	// The first of a batch; 0: a mint that failed before it had any.
	Item    market.ItemID `json:"item,omitempty"`
	Seller  market.UserID `json:"seller"`          // or the owner of a batch
	Buyer   market.UserID `json:"buyer,omitempty"` // of a purchase
	Price   int64         `json:"price,omitempty"` // in coins
	Outcome Outcome       `json:"outcome"`
	Reason  string        `json:"reason,omitempty"` // why it was refused, as market.Reason names it
	Error   string        `json:"error,omitempty"`  // why its outcome is unknown
}

// A LockHold is a lock.Holding of a worker, with times in ns since the row began.
type LockHold struct {
	Worker    int    `json:"worker"`
	Name      string `json:"name"`
	Called    int64  `json:"called"`
	Acquired  int64  `json:"acquired"`
	Releasing int64  `json:"releasing"`
	Released  int64  `json:"released"`
	Fence     int64  `json:"fence,omitempty"`
	Lost      bool   `json:"lost,omitempty"`
	Noticed   bool   `json:"noticed,omitempty"`
}

const (
	fileName = "history.jsonl"
	format   = "marketsim history 3"
	// The most that a history may say. No sum of coins, over the lines of a file of
	// maxBytes, then overflows.
	maxAccounts = marketstore.MaxAccounts
	maxFunds    = 1_000_000_000_000_000
	maxPrice    = 1_000_000_000_000
	maxItems    = 10_000_000 // minted in all
	// A check takes five to ten times as much memory as its file has bytes. The longest
	// line is the market's, the last.
	maxBytes   = 512 << 20
	maxLine    = 128 << 20
	bufferSize = 16 << 10 // how many bytes a worker collects before it writes them; a line is shorter
)

var (
	// ErrExists is returned by Create for a folder that already holds a history.
	ErrExists = errors.New("folder already holds a history")
	// ErrNone is returned by Find and Read for a folder without a history, or
	// with none that can be read.
	ErrNone = errors.New("no history that can be read")
	// ErrDamaged is returned, wrapped with the file and the line, for a history that was
	// cut short, or no Recorder's.
	ErrDamaged = errors.New("history is damaged, and gets no verdict")
)

// A line of the file has one of these, and the first also the format.
type line struct {
	Format string           `json:"format,omitempty"`
	Header *Header          `json:"header,omitempty"`
	Op     *Op              `json:"op,omitempty"`
	Hold   *LockHold        `json:"hold,omitempty"`
	Final  *market.Snapshot `json:"final,omitempty"` // the last line
}

// A Writer records the history of one row into a folder. It is not safe for concurrent
// use; each worker has a Recorder.
type Writer struct {
	output
	began   time.Time
	workers []*Recorder
}

// Create makes a history in a folder, which it makes too. It wraps ErrExists where the
// folder has one, whole or not. Time 0 of the history is h.Began, or now if that is zero.
func Create(dir string, h Header) (*Writer, error) {
	if h.Began.IsZero() {
		h.Began = time.Now()
	}
	w := &Writer{began: h.Began}

	path := filepath.Join(dir, fileName)
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		err = w.open(path, os.O_CREATE|os.O_EXCL)
	}

	switch {
	case errors.Is(err, os.ErrExist):
		return nil, fmt.Errorf("%w: %s", ErrExists, path)
	case err != nil:
		return nil, fmt.Errorf("create history: %w", err)
	}

	w.add(&line{Format: format, Header: &h})
	_ = w.buffer.Flush() // before any line of a worker; close returns the failure
	return w, nil
}

// Worker returns the Recorder of one more worker. A nil Writer has nil Recorders.
func (w *Writer) Worker() (*Recorder, error) {
	if w == nil {
		return nil, nil
	}
	r := &Recorder{worker: len(w.workers) + 1, began: w.began}
	if err := r.open(w.file.Name(), 0); err != nil {
		return nil, fmt.Errorf("create history of worker %d: %w", r.worker, err)
	}
	w.workers = append(w.workers, r)
	return r, nil
}

// Finish adds what the market held when every worker had stopped, closes the history,
// and returns failures to write.
func (w *Writer) Finish(final market.Snapshot) error { return w.end(&line{Final: &final}) }

// Abandon closes, instead of Finish, a history that cannot be finished, or removes it if
// no worker recorded anything.
func (w *Writer) Abandon() error {
	if w == nil {
		return nil
	}
	err := w.end(nil)
	if text, _ := os.ReadFile(w.file.Name()); bytes.Count(text, []byte("\n")) == 1 { // a header
		err = errors.Join(err, os.Remove(w.file.Name()))
	}
	return err
}

// end closes the history, after a last line if there is one and all workers
// have written theirs.
func (w *Writer) end(last *line) (err error) {
	for _, r := range w.workers {
		err = errors.Join(err, r.close())
	}
	if err == nil && last != nil {
		w.add(last)
	}
	return errors.Join(err, w.close())
}

// An output appends whole lines to the file. Each worker has its own, so that
// none waits for another.
type output struct {
	file    *os.File
	buffer  *bufio.Writer // keeps the first failure to write
	encoder *json.Encoder
}

// open appends to the file, so that outputs do not overwrite each other. The buffer has room
// for what add leaves in it and one more line of a worker: none of a worker's is written
// in two parts.
func (o *output) open(path string, flags int) (err error) {
	o.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|flags, 0o644)
	o.buffer = bufio.NewWriterSize(o.file, 2*bufferSize)
	o.encoder = json.NewEncoder(o.buffer)
	return err
}

func (o *output) add(l *line) {
	_ = o.encoder.Encode(l) // into the buffer
	if o.buffer.Buffered() >= bufferSize {
		_ = o.buffer.Flush() // close returns the failure
	}
}

func (o *output) close() error { return errors.Join(o.buffer.Flush(), o.file.Close()) }

// A Recorder writes down what one worker did. A nil Recorder writes nothing. It takes no
// lock, and allocates nothing but the text of an unknown outcome. Writer.Finish returns
// failures to write. It is not safe for concurrent use.
type Recorder struct {
	output
	worker int
	began  time.Time
	line   line // what is written at the moment; a variable would be allocated each time
	op     Op
	hold   LockHold
}

// Minted records a batch of items; err is what marketstore.Mint returned.
func (r *Recorder) Minted(
	start, end time.Time, first market.ItemID, owner market.UserID, err error) {

	r.record(start, end, Op{Kind: Mint, Item: first, Seller: owner}, err)
}

// Listed records a listing; err is what List returned.
func (r *Recorder) Listed(start, end time.Time, l market.Listing, err error) {
	r.record(start, end, Op{Kind: List, Item: l.Item, Seller: l.Seller, Price: l.Price}, err)
}

// Purchased records an order; err is what Purchase returned.
func (r *Recorder) Purchased(start, end time.Time, o market.Order, err error) {
	bought := Op{Kind: Purchase, Item: o.Item, Seller: o.Seller, Buyer: o.Buyer, Price: o.Price}
	r.record(start, end, bought, err)
}

// record writes down an operation: as applied without an error, as refused with one that
// market.Reason names, and as of unknown outcome with any other. Op.valid says which operations
// these may be: Read refuses a history with another.
func (r *Recorder) record(start, end time.Time, o Op, err error) {
	if r == nil {
		return
	}

	o.Worker = r.worker
	o.Start = r.since(start)
	o.End = r.since(end)
	o.Outcome = Applied
	if err != nil {
		o.Outcome = Refused
		o.Reason = market.Reason(err)
	}
	if err != nil && o.Reason == "" {
		o.Outcome = Unknown
		o.Error = err.Error()
	}

	r.op = o
	r.line = line{Op: &r.op}
	r.add(&r.line)
}

// Held records a lock that was held and released.
func (r *Recorder) Held(h lock.Holding) {
	if r == nil {
		return
	}
	r.hold = LockHold{
		Worker: r.worker, Name: h.Name, Fence: h.Fence, Lost: h.Lost, Noticed: h.Noticed,
		Called: r.since(h.Called), Acquired: r.since(h.Acquired),
		Releasing: r.since(h.Releasing), Released: r.since(h.Released),
	}
	r.line = line{Hold: &r.hold}
	r.add(&r.line)
}

func (r *Recorder) since(t time.Time) int64 { return t.Sub(r.began).Nanoseconds() }
