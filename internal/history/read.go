package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/market"
)

// Find returns the folders at and below dir that hold a history, whole or not, in
// lexical order; or ErrNone, wrapped. dir may also be the file of a history.
func Find(dir string) (found []string, err error) {
	if filepath.Base(dir) == fileName {
		dir = filepath.Dir(dir)
	}

	below := filepath.Clean(dir) + string(filepath.Separator) // even if the folder is a link
	err = filepath.WalkDir(below, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == fileName {
			found = append(found, filepath.Dir(path))
		}
		return err
	})

	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no %s in %s or below", fileName, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}

	slices.Sort(found)
	return found, nil
}

// Read reads the history in a folder, until ctx ends. It wraps ErrDamaged where
// that is not whole, or ErrNone.
func Read(ctx context.Context, dir string) (*History, error) {
	path := filepath.Join(dir, fileName)
	f, err := stored.Open(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	defer f.Close()

	h, err := read(ctx, io.LimitReader(f, maxBytes))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("read %s: %w", path, ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("%w: %s, %w", ErrDamaged, path, err)
	}
	return h, nil
}

func read(ctx context.Context, from io.Reader) (*History, error) {
	// The last line says that it is: without it, or with anything after it, the file is not as a
	// Recorder has left it.
	h := &History{}
	in := bufio.NewReader(from)
	for number := 1; ctx.Err() == nil; number++ {
		last := false
		text, err := in.ReadBytes('\n')
		switch {
		case len(text) > maxLine:
			err = fmt.Errorf("it is longer than %d MiB", maxLine>>20)
		case errors.Is(err, io.EOF):
			err = errors.New("the file has no end: the run was killed, or the file was cut short")
		case err == nil:
			last, err = h.add(number, text)
		}

		if _, end := in.Peek(1); err == nil && last && end == nil {
			err = errors.New("something follows the end: the file was edited")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if last {
			return h, nil
		}
	}
	return nil, ctx.Err()
}

// add notes what a line says, and reports whether it is the last.
func (h *History) add(number int, text []byte) (last bool, err error) {
	var l line
	err = stored.Unmarshal(text, &l, "marketsim run --history DIR")

	// In this order: another format may have fields that cannot be read here, and only a line that
	// was read can be spelled again.
	switch {
	case number == 1 && l.Format != format && (err == nil || l.Format != ""):
		return false, fmt.Errorf("format %q is not %q, which this marketsim reads", l.Format, format)
	case err != nil:
		return false, fmt.Errorf("it cannot be read: %w", err)
	case !l.canonical(text):
		return false, errors.New("a field is missing, or there twice, or is written in another way: " +
			"the file was edited")

	// A line records one thing, and says nothing else.
	case number == 1 && l.Header != nil && l == line{Format: format, Header: l.Header} && l.Header.valid():
		h.Header = *l.Header
	case l.Op != nil && l == line{Op: l.Op} && l.Op.valid(h.Accounts):
		h.Ops = append(h.Ops, *l.Op)
	case l.Hold != nil && l == line{Hold: l.Hold} && l.Hold.valid():
		h.Holds = append(h.Holds, *l.Hold)
	case number > 1 && l.Final != nil && l == line{Final: l.Final}:
		h.Final = *l.Final
		if n := len(filter(h.Ops, isMint)) * market.BatchSize; n > maxItems {
			return false, fmt.Errorf("%d items were minted until here, more than %d: "+
				"record a shorter row", n, maxItems)
		}
	default:
		return false, errors.New("no worker of such a row records that: the file was edited")
	}

	return l.Final != nil, nil
}

// canonical reports whether text is the line to the byte, as a Recorder writes it. It
// writes what is not UTF-8 in an error as the escape sequence \ufffd, which is read as a
// character, and that would be written as it is.
func (l *line) canonical(text []byte) bool {
	again, err := json.Marshal(l)
	again = append(again, '\n')
	return err == nil && (bytes.Equal(again, text) ||
		bytes.Equal(again, bytes.ReplaceAll(text, []byte(`\ufffd`), []byte("\ufffd"))))
}

func (h *Header) valid() bool {
	return h.Accounts >= 1 && h.Accounts <= maxAccounts && h.Funds >= 0 && h.Funds <= maxFunds
}

// valid reports whether a Recorder may write it. Each case but the last is of an
// operation that none writes.
func (o *Op) valid(accounts int) bool {
	account := func(id market.UserID) bool {
		return id >= 1 && id <= market.UserID(accounts)
	}
	known := slices.Contains([]OpKind{Mint, List, Purchase}, o.Kind) &&
		slices.Contains([]Outcome{Applied, Refused, Unknown}, o.Outcome)
	failedMint := o.Kind == Mint && o.Outcome != Applied // it may have no item
	hasReason := o.Reason != ""
	isPurchase := o.Kind == Purchase

	switch {
	case !known || o.Worker < 1 || o.Price < 0 || o.Price > maxPrice:
	case o.Start > o.End || o.End >= never:
	case !account(o.Seller):
	case isPurchase != (o.Buyer != 0) || isPurchase && !account(o.Buyer):
	case (o.Kind == Mint) != (o.Price == 0):
	case o.Item < 1 && !failedMint:
	case o.Item > marketstore.MaxItems:
	case hasReason != (o.Outcome == Refused): // a refusal has a reason, and nothing else has
	default:
		return true
	}
	return false
}

func (h *LockHold) valid() bool {
	return h.Worker >= 1 && slices.IsSorted([]int64{0, h.Called, h.Acquired, h.Releasing, h.Released})
}
