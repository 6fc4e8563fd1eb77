package verify

import (
	"fmt"
	"io"
	"slices"

	"github.com/marketsim/marketsim/results/stored"
)

// An Explored is what the search of schedules found of a scheme in a program, as it is stored.
type Explored struct {
	Scheme      string
	Program     string
	Why         string   `json:",omitempty"` // it was not explored
	Of          []string `json:",omitempty"` // the faults that could happen; empty: every kind
	Preemptions int      // of the shortest harm, or the last bounds
	Faults      int
	Schedules   int    `json:",omitempty"` // with these bounds
	Harmful     int    `json:",omitempty"` // how many of them do harm
	Harm        Harm   `json:",omitempty"` // of the shortest; empty: nothing was found
	Shows       string `json:",omitempty"` // what shows it, in words
	Token       string `json:",omitempty"` // plays the shortest again
}

// WriteExplored stores what was found.
func WriteExplored(w io.Writer, all []Explored) error {
	return write(w, "what was explored", all, "\t")
}

// ReadExplored reads what WriteExplored stored. It refuses an unknown harm.
func ReadExplored(r io.Reader) ([]Explored, error) {
	var all []Explored
	if err := stored.Decode(r, &all, "go generate ./results"); err != nil {
		return nil, fmt.Errorf("read what was explored: %w", err)
	}
	for _, e := range all {
		if e.Harm != "" && !slices.Contains(Harms(), e.Harm) {
			return nil, fmt.Errorf("read what was explored: unknown harm %q of %s", string(e.Harm), e.Scheme)
		}
	}
	return all, nil
}
