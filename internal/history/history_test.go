package history

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestMain(m *testing.M) { testkit.VerifyNoLeaks(m) }

// errOf is an error with the outcome of an operation.
func errOf(o Op) error {
	for _, err := range []error{
		market.ErrNotListed,
		market.ErrPriceChanged,
		market.ErrInsufficientFunds,
		market.ErrNotOwned,
	} {
		if o.Outcome == Refused && market.Reason(err) == o.Reason {
			return err
		}
	}

	if o.Outcome == Unknown {
		return errors.New(o.Error)
	}
	return nil
}

// create begins a history in a folder of the test, with this many workers.
func create(t testing.TB, h Header, workers int) (dir string, w *Writer, recorders []*Recorder) {
	t.Helper()
	dir = t.TempDir()
	w = testkit.Must(Create(dir, h))(t)
	for range workers {
		r := testkit.Must(w.Worker())(t)
		recorders = append(recorders, r)
	}
	return dir, w, recorders
}

// write records a history as its two workers would have, and returns the folder.
func write(t testing.TB, h *History) string {
	t.Helper()
	dir, w, recorders := create(t, h.Header, 2)
	at := func(ns int64) time.Time {
		return h.Began.Add(time.Duration(ns))
	}

	for _, o := range h.Ops {
		switch r := recorders[o.Worker-1]; o.Kind {
		case Mint:
			r.Minted(at(o.Start), at(o.End), o.Item, o.Seller, errOf(o))
		case List:
			listing := market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price}
			r.Listed(at(o.Start), at(o.End), listing, errOf(o))
		default:
			r.Purchased(at(o.Start), at(o.End),
				market.Order{Item: o.Item, Seller: o.Seller, Buyer: o.Buyer, Price: o.Price}, errOf(o))
		}
	}

	for _, x := range h.Holds {
		recorders[x.Worker-1].Held(lock.Holding{
			Name: x.Name, Called: at(x.Called), Acquired: at(x.Acquired), Releasing: at(x.Releasing),
			Released: at(x.Released), Fence: x.Fence, Lost: x.Lost, Noticed: x.Noticed,
		})
	}

	testkit.Succeeds(t, w.Finish(h.Final))
	return dir
}

// everything is a history with a record of every kind.
func everything() *History {
	return &History{
		Header: Header{
			Run: "test:{a\"b}:", Subject: "fine", Mix: "1x1", Seed: 7, Accounts: 3, Funds: 100,
			Began: time.Date(2026, 11, 20, 12, 0, 0, 5, time.UTC),
		},
		Ops: []Op{
			{Worker: 1, Kind: Mint, Start: 1, End: 5, Item: 1, Seller: 1, Outcome: Applied},
			{Worker: 1, Kind: Mint, Start: 6, End: 7, Item: 0, Seller: 1,
				Outcome: Unknown, Error: "read \"tcp\":\nEOF"},
			{Worker: 1, Kind: List, Start: 10, End: 20, Item: 1, Seller: 1, Price: 40, Outcome: Applied},
			{Worker: 1, Kind: List, Start: 21, End: 25, Item: 1, Seller: 1, Price: 40,
				Outcome: Refused, Reason: "not_owned"},
			{Worker: 2, Kind: Purchase, Start: 22, End: 30, Item: 1, Seller: 1, Buyer: 2, Price: 40,
				Outcome: Applied},
			{Worker: 2, Kind: Purchase, Start: 31, End: 33, Item: 1, Seller: 1, Buyer: 2, Price: 40,
				Outcome: Unknown, Error: "EOF"},
		},
		Holds: []LockHold{
			{Worker: 1, Name: "1", Called: 11, Acquired: 12, Releasing: 13, Released: 14, Fence: 3},
			{Worker: 2, Name: "ü\n", Called: 31, Acquired: 32, Releasing: 33, Released: 34,
				Lost: true, Noticed: true},
		},
		Final: market.Snapshot{
			Funds:     map[market.UserID]int64{1: 140, 2: 60},
			Inventory: map[market.UserID]map[market.ItemID]bool{2: {1: true, -4: true}, 3: {2: true}},
			Listings:  map[string]int64{"2.1": 9, "junk": 1},
		},
	}
}

func TestReadIsWhatWasWritten(t *testing.T) {
	want := everything()
	dir := write(t, want)
	got := testkit.Must(Read(t.Context(), dir))(t)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}

	odd := everything()
	odd.Ops[1].Error = "no UTF-8: \xff, \ufffd \u2028 <&>"
	if _, err := Read(t.Context(), write(t, odd)); err != nil {
		t.Error(err)
	}

	if _, err := Create(dir, want.Header); !errors.Is(err, ErrExists) {
		t.Errorf("a second history in the folder: %v, want %v", err, ErrExists)
	}
	if _, err := Read(t.Context(), t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v, want %v", err, ErrNone)
	}
}

// TestDamaged: each damage is told with its file and line.
func TestDamaged(t *testing.T) {
	replace := func(old, new string) func(string) string {
		return func(text string) string {
			return strings.Replace(text, old, new, 1)
		}
	}
	lines := func(text string) []string {
		return strings.SplitAfter(text, "\n")
	}

	for _, c := range []struct {
		name   string
		damage func(text string) string
		says   string
	}{
		{"edited outcome", replace(`"outcome":"refused"`, `"outcome":"applied"`),
			"line 5: no worker"},
		{"an end before the beginning", replace(`"end":20`, `"end":2`), "line 4: no worker"},
		{"a lock released before it was acquired",
			replace(`"releasing":13`, `"releasing":1`), "line 6: no worker"},
		{"half a last line", func(s string) string {
			return s[:len(s)-5]
		}, "line 10: the file has no end"},
		{"no last line", func(s string) string {
			return strings.Join(lines(s)[:9], "")
		}, "line 10: the file has no end"},
		{"empty", func(string) string {
			return ""
		}, "line 1: the file has no end"},
		{"something after the end", func(s string) string {
			return s + "{}\n"
		}, "line 10: something follows the end"},
		{"not JSON", replace("{", "["), "line 1: it cannot be read"},
		{"an older history", replace("history 3", "history 2"), `format "marketsim history 2"`},
		{"a later history", replace(`history 3","header":{`, `history 4","header":{"later":1,`),
			`"marketsim history 4"`},
		{"no accounts", replace(`"accounts":3`, `"accounts":0`), "line 1: no worker of such a row"},
		{"many accounts", replace(`"accounts":3`, `"accounts":1000001`),
			"line 1: no worker of such a row"},
		{"many coins", replace(`"funds":100`, `"funds":1000000000000001`),
			"line 1: no worker of such a row"},
		{"a large item", replace(`"item":1`, `"item":10000000001`), "line 2: no worker of such a row"},
		{"a high price", replace(`"price":40`, `"price":1000000000001`),
			"line 4: no worker of such a row"},
		{"a number that is none", replace(`"price":40`, `"price":1e99`), "line 4: it cannot be read"},
		{"an unknown field", replace(`"end":20`, `"end":20,"enp":3`),
			`line 4: it cannot be read: the field "enp" is unknown`},
		{"a field's name destroyed", replace(`"price"`, `"prize"`),
			`line 4: it cannot be read: the field "prize" is unknown`},
		{"no start", replace(`"start":10,`, ``), "line 4: a field is missing"},
		{"no price", replace(`"price":40,`, ``), "line 4: no worker of such a row"},
		{"no buyer", replace(`"buyer":2,`, ``), "line 7: no worker of such a row"},
		{"no coins at the end", replace(`"Funds":{"1":140,"2":60},`, ``), "line 10: a field is missing"},
		{"a field twice", replace(`"end":20`, `"end":20,"end":20`),
			"line 4: a field is missing, or there twice"},
		{"a header with the end in its line", func(s string) string {
			all := lines(s)
			return strings.TrimSuffix(all[0], "}\n") + "," + strings.TrimPrefix(all[len(all)-2], "{")
		}, "line 1: no worker of such a row"},
		{"two records in a line", replace(`"op"`, `"hold":null,"op"`),
			"line 2: a field is missing, or there twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := write(t, everything())
			path := filepath.Join(dir, fileName)
			before := testkit.Must(os.ReadFile(path))(t)
			after := c.damage(string(before))
			if after == string(before) {
				t.Fatal("nothing was changed")
			}

			testkit.Succeeds(t, os.WriteFile(path, []byte(after), 0o666))
			h, err := Read(t.Context(), dir)
			if !errors.Is(err, ErrDamaged) || h != nil || !strings.Contains(err.Error(), path+", line") ||
				!strings.Contains(err.Error(), c.says) {
				t.Fatalf("Read: %v, %v; want %v with %q", h, err, ErrDamaged, c.says)
			}
		})
	}
}

// TestEachBit flips each bit of a history. What is read all the same has another
// number, text or key of the data: the names of all fields, and what stands
// between them, are as they were.
func TestEachBit(t *testing.T) {
	t.Parallel()
	whole := testkit.Must(os.ReadFile(filepath.Join(write(t, everything()), fileName)))(t)

	// A key of the data is one of a number or that of no field.
	data := regexp.MustCompile(`(-?\d+|"(\\.|[^"\\])*")(:?)`)
	fields := regexp.MustCompile(`^"(format|header|op|hold|final|` +
		`run|subject|mix|seed|accounts|funds|began|worker|kind|` +
		`start|end|item|seller|buyer|price|outcome|reason|error|` +
		`name|called|acquired|releasing|released|fence|lost|` +
		`noticed|Funds|Inventory|Listings)":$`)

	mayChange := make([]bool, len(whole))
	for _, at := range data.FindAllIndex(whole, -1) {
		isField := fields.Match(whole[at[0]:at[1]])
		for i := at[0]; i < at[1]; i++ {
			mayChange[i] = !isField
		}
	}

	accepted := 0
	for i := range whole {
		for bit := range 8 {
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1 << bit
			_, err := read(t.Context(), bytes.NewReader(flipped))
			if err == nil && !mayChange[i] {
				t.Errorf("bit %d of byte %d: read is %q", bit, i, flipped[max(0, i-20):min(len(flipped), i+20)])
			}
			if err == nil {
				accepted++
			}
		}
	}

	if all := 8 * len(whole); accepted == 0 || accepted > all/4 {
		t.Errorf("%d of %d flipped bits are read", accepted, all)
	}
}

// TestReadIsBounded: no file takes more time or memory to read than a limit, and none is
// read after the user's wish to stop.
func TestReadIsBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	testkit.Succeeds(t, os.Mkdir(path, 0o777))
	_, err := Read(t.Context(), dir)
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), path+" is not a file") {
		t.Errorf("what is no file: %v", err)
	}

	dir = write(t, everything())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ended, dir); !errors.Is(err, context.Canceled) || errors.Is(err, ErrDamaged) {
		t.Errorf("after the end: %v", err)
	}

	testkit.Succeeds(t, os.Truncate(filepath.Join(dir, fileName), maxBytes+1))
	_, err = Read(t.Context(), dir)
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "is larger than 512 MiB") {
		t.Errorf("a large file: %v", err)
	}

	many := everything()
	many.Ops = slices.Repeat(many.Ops[:1], maxItems/market.BatchSize+1)
	_, err = Read(t.Context(), write(t, many))
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "10001000 items were minted") {
		t.Errorf("many items: %v", err)
	}

	_, err = read(t.Context(), io.LimitReader(endless("x"), maxLine+1))
	if err == nil || !strings.Contains(err.Error(), "line 1: it is longer than 128 MiB") {
		t.Errorf("a line without an end: %v", err)
	}

	lines := testkit.Must(os.ReadFile(filepath.Join(write(t, everything()), fileName)))(t)
	first, rest, _ := bytes.Cut(lines, []byte("\n"))
	second, _, _ := bytes.Cut(rest, []byte("\n"))
	ctx, cancel := context.WithCancel(t.Context())
	from := io.MultiReader(
		bytes.NewReader(append(first, '\n')), calls(cancel), endless(string(second)+"\n"))
	_, err = read(ctx, from)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted while it reads: %v", err)
	}
}

// endless is a file that holds a text again and again.
type endless string

func (e endless) Read(b []byte) (n int, err error) {
	return copy(b, strings.Repeat(string(e), len(b)/len(e))), nil
}

// calls is a file that is empty, and tells when it is read.
type calls func()

func (c calls) Read([]byte) (int, error) { c(); return 0, io.EOF }

// TestAbandoned: what a killed run leaves is damaged, and so is a history that was
// abandoned. One into which nothing was recorded is gone, and another can take its place.
func TestAbandoned(t *testing.T) {
	dir, w, recorders := create(t, everything().Header, 1)
	if _, err := Read(t.Context(), dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("killed at once: %v", err)
	}

	recorders[0].Minted(time.Now(), time.Now(), 1, 1, nil)
	testkit.Succeeds(t, w.Abandon())
	if _, err := Read(t.Context(), dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("abandoned: %v", err)
	}

	dir = t.TempDir()
	for range 2 {
		w := testkit.Must(Create(dir, everything().Header))(t)
		testkit.Succeeds(t, w.Abandon())
	}
	if _, err := Find(dir); !errors.Is(err, ErrNone) {
		t.Errorf("Find: %v, want %v", err, ErrNone)
	}
}

// TestFullDisk: a record that could not be written is told at the end.
func TestFullDisk(t *testing.T) {
	dir, w, recorders := create(t, everything().Header, 1)
	recorders[0].file.Close() // writes fail from here on
	for range 2000 {
		recorders[0].Listed(time.Now(), time.Now(), market.Listing{Item: 1, Seller: 1, Price: 1}, nil)
	}
	err := w.Finish(market.Snapshot{})
	if !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Finish: %v, want a failure that names %s", err, dir)
	}
	if _, err := Read(t.Context(), dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("Read: %v, want %v", err, ErrDamaged)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	if _, err := Find(root); !errors.Is(err, ErrNone) {
		t.Errorf("in an empty folder: %v, want %v", err, ErrNone)
	}

	nowhere := filepath.Join(root, "nowhere")
	_, err := Find(nowhere)
	none := errors.Is(err, ErrNone) && errors.Is(err, os.ErrNotExist)
	if !none || !strings.Contains(err.Error(), nowhere) {
		t.Errorf("in no folder: %v, want %v that names %s", err, ErrNone, nowhere)
	}

	var want []string
	for _, name := range []string{"1-fine-5x5", "2-h[1]", "3-h["} { // a folder's name is no pattern
		dir := filepath.Join(root, name)
		testkit.Succeeds(t, os.CopyFS(dir, os.DirFS(write(t, everything()))))
		want = append(want, dir)
		for _, at := range []string{dir, filepath.Join(dir, fileName)} {
			if got, err := Find(at); err != nil || !reflect.DeepEqual(got, []string{dir}) {
				t.Errorf("found %v, %v at %s", got, err, at)
			}
		}
	}

	if got, err := Find(root); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("found %v, %v; want %v", got, err, want)
	}

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		testkit.Require(t, "symlinks", err.Error()) // Windows, without the right to
	}
	got, err := Find(link)
	if err != nil || len(got) != 3 || got[0] != filepath.Join(link, "1-fine-5x5") {
		t.Errorf("found %v, %v through a link", got, err)
	}
}

// FuzzRead: no file is a reason to panic, neither to read nor to judge, and one that was
// cut short is never accepted.
func FuzzRead(f *testing.F) {
	whole := testkit.Must(os.ReadFile(filepath.Join(write(f, everything()), fileName)))(f)
	for cut := range 40 {
		f.Add(whole[:len(whole)*(cut+1)/40])
	}

	f.Add(bytes.Replace(whole, []byte(":4"), []byte(":5"), 1))
	f.Add(append(bytes.Clone(whole), '\n'))
	f.Add(bytes.Replace(whole, []byte(`"price":`), []byte(`"Price":`), 1))
	f.Add(bytes.Replace(whole, []byte(`"accounts":3`), []byte(`"accounts":100000`), 1))

	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := read(t.Context(), bytes.NewReader(text))
		cut := len(text) < len(whole) && bytes.HasPrefix(whole, text)
		if bytes.Equal(text, whole) && err != nil || cut && err == nil {
			t.Errorf("cut short %t, but read: %v", cut, err)
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			Check(ctx, h)
		}
	})
}
