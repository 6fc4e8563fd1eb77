package market

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// aLedger has something of everything that a ledger can hold.
func aLedger() *Ledger {
	lost := errors.New("the reply was lost")
	l := NewLedger(4)
	l.Minted(1, 1, nil)
	l.Minted(7*BatchSize+1, 1, lost)
	l.Listed(Listing{Item: 1, Seller: 1, Price: 30}, nil)
	l.Listed(Listing{Item: 1000, Seller: 1, Price: 70}, nil)
	l.Listed(Listing{Item: 3, Seller: 1, Price: 5}, lost)
	for _, item := range []ItemID{-5, 1, 64, 7*BatchSize + 1000} {
		l.Purchased(Order{Item: item, Seller: 2, Buyer: 3, Price: 30}, nil)
	}
	l.Purchased(Order{Item: 1, Seller: 2, Buyer: 3, Price: 30}, nil) // again
	l.Purchased(Order{Item: 9, Seller: 1, Buyer: 4, Price: 8}, nil)
	l.Purchased(Order{Item: -12, Seller: 1, Buyer: 4, Price: 8}, lost)
	return l
}

// TestLedgerIsReadAsWritten, an empty one and one with everything.
func TestLedgerIsReadAsWritten(t *testing.T) {
	for name, l := range map[string]*Ledger{"empty": NewLedger(0), "full": aLedger()} {
		form, err := l.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		again := NewLedger(0)
		if err := again.UnmarshalBinary(form); err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("%s: read %+v, %v\nwant %+v", name, again, err, l)
		}
	}
}

// TestLedgerRefusesWhatIsNone: a form that is cut short anywhere, one with an item or an account that there cannot be,
// and one that is written in another order.
func TestLedgerRefusesWhatIsNone(t *testing.T) {
	whole, err := aLedger().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := NewLedger(0).UnmarshalBinary(whole[:n]); !errors.Is(err, errLedger) {
			t.Errorf("the first %d of %d bytes: %v", n, len(whole), err)
		}
	}
	tooMany := append([]byte{ledgerVersion, 1, 0, 1, 2, 1, 0}, bytes.Repeat([]byte{0xff}, marksSize)...)
	for want, form := range map[string][]byte{
		"bytes follow its end":        append(bytes.Clone(whole), 0),
		"version 9":                   {9},
		"a batch has more than":       append(tooMany, 0, 0, 0, 0, 0),
		"user 2 where there are 1":    {ledgerVersion, 1, 1, 4, 2, 0, 0, 0, 0, 0, 0},
		"it is not written as one":    {ledgerVersion, 2, 2, 4, 2, 2, 2, 0, 0, 0, 0, 0, 0},
		"2000000 where there are at ": {ledgerVersion, 0x80, 0x89, 0x7a},
	} {
		if err := NewLedger(0).UnmarshalBinary(form); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", form[:min(12, len(form))], err, want)
		}
	}
}

func TestLedgerThatCirculatesHasNoForm(t *testing.T) {
	l := NewLedger(2)
	l.Circulate(NewCirculation(10, 2))
	if form, err := l.MarshalBinary(); err == nil {
		t.Errorf("its form is %v", form)
	}
}

// FuzzLedger: whatever is read as a ledger is written as the same bytes.
func FuzzLedger(f *testing.F) {
	for _, l := range []*Ledger{NewLedger(0), aLedger()} {
		form, err := l.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(form)
	}
	f.Fuzz(func(t *testing.T, form []byte) {
		l := NewLedger(0)
		if l.UnmarshalBinary(form) != nil {
			return
		}
		if again, err := l.MarshalBinary(); err != nil || !bytes.Equal(again, form) {
			t.Errorf("%v is read, and written as %v, %v", form, again, err)
		}
	})
}
