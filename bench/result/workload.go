package result

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Workload is in what a row's market differs from the book's. The zero value is the book's own.
type Workload struct {
	// Hot is how many items circulate: a buyer lists again what it has bought, and nobody else sells. 0: sellers list new
	// items all the time.
	Hot int `json:"hot,omitempty"`
	// Stock is how many items were listed before the row began.
	Stock int `json:"stock,omitempty"`
	// HoldMS is how long each operation does other work between its reads and its write, with its locks held; a script,
	// which reads and writes in one go, does it before.
	HoldMS float64 `json:"hold_ms,omitempty"`
	// RTTMS is by how much each reply to a worker was delayed, as by a network.
	RTTMS float64 `json:"rtt_ms,omitempty"`
	// Markets is among how many markets the workers are divided, two or more; 0: there is one.
	Markets int `json:"markets,omitempty"`
}

// String is the workload as it is added to the name of a row: "hot=1 hold=0.5ms", or nothing for the book's.
func (w Workload) String() string {
	var parts []string
	for _, of := range []struct {
		name string
		n    int
	}{{"hot", w.Hot}, {"stock", w.Stock}} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", of.name, of.n))
		}
	}
	for _, of := range []struct {
		name string
		ms   float64
	}{{"hold", w.HoldMS}, {"rtt", w.RTTMS}} {
		if of.ms > 0 {
			parts = append(parts, of.name+"="+strconv.FormatFloat(of.ms, 'f', -1, 64)+"ms")
		}
	}
	if w.Markets > 1 {
		parts = append(parts, fmt.Sprintf("markets=%d", w.Markets))
	}
	return strings.Join(parts, " ")
}

// An Axis is what a sweep varies.
type Axis struct {
	Name   AxisName  `json:"name"`
	Values []float64 `json:"values"` // ascending; times are in milliseconds
}

// AxisName names an axis.
type AxisName string

// The axes of a sweep.
const (
	Clients AxisName = "clients" // how many sellers, and as many buyers; of a Workload that is hot, buyers alone
	Hot     AxisName = "hot"     // as Workload.Hot
	Hold    AxisName = "hold"    // as Workload.HoldMS
	RTT     AxisName = "rtt"     // as Workload.RTTMS
	Markets AxisName = "markets" // as Workload.Markets
)

// AxisNames are all of them.
func AxisNames() []AxisName { return []AxisName{Clients, Hot, Hold, RTT, Markets} }

// check refuses what is no axis.
func (a Axis) check() error {
	switch {
	case !slices.Contains(AxisNames(), a.Name):
		return fmt.Errorf("unknown axis %q", string(a.Name))
	case len(a.Values) == 0:
		return fmt.Errorf("the axis %s has no values", a.Name)
	}
	return nil
}
