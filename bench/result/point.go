package result

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Point is what is measured: it identifies a row, together with the trial.
// Points can be compared with ==.
type Point struct {
	Strategy string `json:"strategy"` // canonical spec; one that is compared with itself ends in "#2"
	// Server is the name of the server on which it is measured, of several; empty: there is
	// only one.
	Server string `json:"server,omitempty"`
	Mix    Mix    `json:"mix"`
	Load
}

// Name names the row, as in "fine 5x5", "watch 0x5 hot=1 hold=0.5ms", "lua 5x5 at
// 1000/s" and "lua on valkey 5x5".
func (p Point) Name() string { return p.Subject() + " " + p.Place() }

// Subject is what is compared in a place: the strategy and, of several, the server, as in
// "lua on valkey". Of one that is compared with itself it ends in "#2", too.
func (p Point) Subject() string {
	if p.Server == "" {
		return p.Strategy
	}
	spec, again, isAgain := strings.Cut(p.Strategy, "#")
	spec += " on " + p.Server
	if isAgain {
		spec += "#" + again
	}
	return spec
}

// Place is the name without the Subject: subjects are compared in the same place.
func (p Point) Place() string { return strings.TrimSuffix(p.Mix.String()+" "+p.Load.String(), " ") }

// Spec is the strategy without the mark of one that is compared with itself.
func (p Point) Spec() string {
	spec, _, _ := strings.Cut(p.Strategy, "#")
	return spec
}

// A Mix is how many sellers and buyers there are.
type Mix struct{ Sellers, Buyers int }

// String is the mix as it is typed: "5x1".
func (m Mix) String() string { return fmt.Sprintf("%dx%d", m.Sellers, m.Buyers) }

var writtenMix = regexp.MustCompile(`^(0|[1-9][0-9]{0,5})x(0|[1-9][0-9]{0,5})$`)

// ParseMix reads what String writes.
func ParseMix(text string) (Mix, error) {
	parts := writtenMix.FindStringSubmatch(text)
	if parts == nil {
		return Mix{}, fmt.Errorf("mix %q: want SELLERSxBUYERS, such as 5x1", text)
	}
	sellers, _ := strconv.Atoi(parts[1])
	buyers, _ := strconv.Atoi(parts[2])
	return Mix{sellers, buyers}, nil
}

// MarshalText makes JSON hold a mix as it is typed.
func (m Mix) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (m *Mix) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMix(string(text))
	return err
}

// A Load says how a row differs from the usual market, its zero value: sellers list new
// items all the time, about 64 listings a buyer are up at the start, and buyers, each
// with an endless account, do one order after the other.
type Load struct {
	// How many accounts all buyers share; 0: each from its own.
	Wallets int `json:"wallets,omitempty"`
	// Coins of each account at the start; 0: they never run out.
	Funds int64 `json:"funds,omitempty"`
	// Hot is how many items circulate: a buyer lists again what it has bought, and
	// nobody else sells. 0: none do.
	Hot   int  `json:"hot,omitempty"`
	Stock int  `json:"stock,omitempty"` // items listed before the row begins; 0: about 64 for each buyer
	Empty bool `json:"empty,omitempty"` // the row begins without listings, as the book's market does
	// HoldMS is how many ms an operation works between its reads and its write, locks
	// held; a script works before both.
	HoldMS float64 `json:"hold_ms,omitempty"`
	// RTTMS is how many ms each reply to a worker is delayed, as by a network.
	RTTMS float64 `json:"rtt_ms,omitempty"`
	// Markets is among how many markets the workers are divided, 2 or more; 0: there is one.
	Markets int `json:"markets,omitempty"`
	// Rate is how many orders a second fall due, whether or not a buyer is
	// free; 0: a closed loop.
	Rate float64 `json:"rate,omitempty"`
	// Arrivals is how the orders of a Rate fall due: ConstantArrivals, at equal gaps, or
	// empty: at the random gaps of a Poisson process, as if each came from a customer of
	// its own.
	Arrivals string `json:"arrivals,omitempty"`
}

// ConstantArrivals are orders that fall due at equal gaps.
const ConstantArrivals = "constant"

// String is the load in the name of a row: "hot=1 hold=0.5ms". Empty is not in it:
// all rows of a run begin alike. Every other field is: package compare takes rows of one
// subject and [Point.Place] for rows of one point. Each part has the form NAME=VALUE or "at
// RATE/s", which internal/view turns into names for benchstat (BenchmarkName).
func (l Load) String() string {
	var parts []string
	add := func(name string, value float64, unit string) {
		if value != 0 {
			parts = append(parts, name+"="+strconv.FormatFloat(value, 'f', -1, 64)+unit)
		}
	}

	add("wallets", float64(l.Wallets), "")
	add("funds", float64(l.Funds), "")
	add("hot", float64(l.Hot), "")
	add("stock", float64(l.Stock), "")
	add("hold", l.HoldMS, "ms")
	add("rtt", l.RTTMS, "ms")
	add("markets", float64(l.Markets), "")

	if l.Arrivals != "" {
		parts = append(parts, "arrivals="+l.Arrivals)
	}
	if l.Rate != 0 {
		parts = append(parts, "at "+strconv.FormatFloat(l.Rate, 'f', -1, 64)+"/s")
	}
	return strings.Join(parts, " ")
}
