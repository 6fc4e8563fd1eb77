package market

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// The compact form of a ledger, in which one process hands it to another: its version, then the parts of a Ledger in the
// order of their fields. Numbers are varints. Items that were bought are bits by batch, and so are those that were listed,
// with the prices of these alone. A ledger has one form.
const ledgerVersion = 1

var (
	_ encoding.BinaryMarshaler   = (*Ledger)(nil)
	_ encoding.BinaryUnmarshaler = (*Ledger)(nil)
)

// errLedger is returned, wrapped, for bytes that are no ledger.
var errLedger = errors.New("not a ledger of marketsim")

// MarshalBinary implements encoding.BinaryMarshaler. A ledger that circulates has no such form.
func (l *Ledger) MarshalBinary() ([]byte, error) {
	if l.circulation != nil {
		return nil, errors.New("a ledger of items that circulate has no binary form: what it knows is shared")
	}
	w := ledgerWriter{ledgerVersion}
	w.count(l.accounts)
	w.deltas(l.deltas)
	w.count(len(l.bought))
	for _, buyer := range slices.Sorted(maps.Keys(l.bought)) {
		w.number(int64(buyer))
		w.count(len(l.bought[buyer]))
		for _, batch := range slices.Sorted(maps.Keys(l.bought[buyer])) {
			w.number(int64(batch))
			w.marks(l.bought[buyer][batch])
		}
	}
	w.orders(l.again)
	w.count(len(l.asked))
	for _, batch := range slices.Sorted(maps.Keys(l.asked)) {
		w.number(int64(batch))
		w.asked(l.asked[batch])
	}
	w.count(len(l.minted))
	for _, m := range l.minted {
		w.count(batchOf(m.first))
		w.number(int64(m.owner))
		w.flag(m.unsure)
	}
	w.count(len(l.unsureListings))
	for _, x := range l.unsureListings {
		w.number(int64(x.Item))
		w.number(int64(x.Seller))
		w.number(x.Price)
	}
	w.orders(l.unsureOrders)
	return w, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler, of an empty ledger. It refuses what MarshalBinary does not write.
func (l *Ledger) UnmarshalBinary(form []byte) error {
	r := ledgerReader{rest: form}
	if version := r.next(); version != ledgerVersion && r.err == nil {
		return fmt.Errorf("%w: version %d, and this marketsim reads %d", errLedger, version, ledgerVersion)
	}
	r.accounts = r.count(MaxAccounts)
	read := NewLedger(r.accounts)
	read.deltas = r.deltas()
	for range r.listOf(3) {
		buyer, items := r.user(), places{}
		for range r.listOf(1 + marksSize) {
			items[int(r.number())] = r.marks()
		}
		read.bought[buyer] = items
	}
	read.again = r.orders()
	for range r.listOf(1 + marksSize) {
		read.asked[int(r.number())] = r.asked()
	}
	for range r.listOf(3) {
		read.minted = append(read.minted, mint{ItemID(1 + BatchSize*r.count(MaxItems/BatchSize-1)), r.user(), r.flag()})
	}
	for range r.listOf(3) {
		read.unsureListings = append(read.unsureListings, Listing{Item: r.item(), Seller: r.user(), Price: r.number()})
	}
	read.unsureOrders = r.orders()
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%w: %d bytes follow its end", errLedger, len(r.rest))
	}
	if r.err != nil {
		return r.err
	}
	if again, err := read.MarshalBinary(); err != nil || !bytes.Equal(again, form) {
		return fmt.Errorf("%w: it is not written as one", errLedger)
	}
	*l = *read
	return nil
}

// marksSize is how many bytes marks take.
const marksSize = len(marks{}) * 8

type ledgerWriter []byte

func (w *ledgerWriter) count(n int)    { *w = binary.AppendUvarint(*w, uint64(n)) }
func (w *ledgerWriter) number(n int64) { *w = binary.AppendVarint(*w, n) }

func (w *ledgerWriter) flag(set bool) {
	if set {
		w.count(1)
	} else {
		w.count(0)
	}
}

// deltas writes those of the accounts whose funds changed.
func (w *ledgerWriter) deltas(all []int64) {
	changed := 0
	for _, d := range all {
		if d != 0 {
			changed++
		}
	}
	w.count(changed)
	for account, d := range all {
		if d != 0 {
			w.number(int64(account))
			w.number(d)
		}
	}
}

func (w *ledgerWriter) marks(m *marks) {
	for _, word := range m {
		*w = binary.LittleEndian.AppendUint64(*w, word)
	}
}

func (w *ledgerWriter) asked(a *asked) {
	w.marks(&a.listed)
	for id := range a.listed.items(0) {
		w.number(a.prices[inBatch(id)])
	}
}

func (w *ledgerWriter) orders(all []Order) {
	w.count(len(all))
	for _, o := range all {
		w.number(int64(o.Item))
		w.number(int64(o.Seller))
		w.number(int64(o.Buyer))
		w.number(o.Price)
	}
}

// ledgerReader reads what ledgerWriter writes. After the first error it reads zeros.
type ledgerReader struct {
	rest     []byte
	accounts int
	err      error
}

func (r *ledgerReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{errLedger}, args...)...)
	}
	r.rest = nil
}

// next is a number that is not negative.
func (r *ledgerReader) next() uint64 {
	n, size := binary.Uvarint(r.rest)
	r.skip(size)
	return n
}

// skip goes on behind a number that took so many bytes; none means that there was no whole one.
func (r *ledgerReader) skip(size int) {
	if size <= 0 {
		r.fail("it is cut short")
		return
	}
	r.rest = r.rest[size:]
}

func (r *ledgerReader) count(most int) int {
	n := r.next()
	if n > uint64(most) {
		r.fail("%d where there are at most %d", n, most)
		return 0
	}
	return int(n)
}

// listOf is how many of something follow, each of which takes so many bytes at least. So a few bytes cannot make a reader
// take much memory.
func (r *ledgerReader) listOf(least int) int { return r.count(len(r.rest) / least) }

func (r *ledgerReader) number() int64 {
	n, size := binary.Varint(r.rest)
	r.skip(size)
	return n
}

func (r *ledgerReader) flag() bool { return r.count(1) == 1 }

// item is any id, because a client may be told to have traded what is none.
func (r *ledgerReader) item() ItemID { return ItemID(r.number()) }

// user is one who has an account.
func (r *ledgerReader) user() UserID {
	id := r.number()
	if id < 1 || id > int64(r.accounts) {
		r.fail("user %d where there are %d accounts", id, r.accounts)
		return 0
	}
	return UserID(id)
}

func (r *ledgerReader) deltas() []int64 {
	n := r.listOf(2)
	if n == 0 {
		return nil
	}
	all := make([]int64, r.accounts+1)
	for range n {
		if account, delta := r.user(), r.number(); r.err == nil {
			all[account] = delta
		}
	}
	return all
}

func (r *ledgerReader) marks() *marks {
	m := new(marks)
	if len(r.rest) < marksSize {
		r.fail("it is cut short")
		return m
	}
	for i := range m {
		m[i] = binary.LittleEndian.Uint64(r.rest[8*i:])
	}
	r.rest = r.rest[marksSize:]
	if m[len(m)-1]>>(BatchSize%64) != 0 {
		r.fail("a batch has more than %d items", BatchSize)
		return new(marks)
	}
	return m
}

func (r *ledgerReader) asked() *asked {
	a := &asked{listed: *r.marks()}
	for id := range a.listed.items(0) {
		a.prices[inBatch(id)] = r.number()
	}
	return a
}

func (r *ledgerReader) orders() (all []Order) {
	for range r.listOf(4) {
		all = append(all, Order{Item: r.item(), Seller: r.user(), Buyer: r.user(), Price: r.number()})
	}
	return all
}
