package verify

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Diagram is one schedule as people read it: time downwards, a column a client and one for the server.
type Diagram struct {
	Clients []string `json:"clients"`
	Events  []Event  `json:"events"`
	End     []string `json:"end"` // what each client was told, and then what is wrong
}

// TimeGoesOn is the Reply of an event in which nothing happens but that.
const TimeGoesOn = "*time goes on*"

// An Event is one command of a client and the reply to it, or a fault, which stands between asterisks.
type Event struct {
	At     time.Duration `json:"at_ns"`  // since the schedule began
	Client int           `json:"client"` // from 0; -1: it happens to the server
	Does   string        `json:"does,omitempty"`
	Reply  string        `json:"reply,omitempty"` // or what happens to the server
}

// Cells are the diagram as a table: what stands above its columns, and a row for each event.
func (d Diagram) Cells() (head []string, rows [][]string) {
	head = slices.Concat([]string{"time"}, d.Clients, []string{"server"})
	for i, e := range d.Events {
		cells := make([]string, len(head))
		cells[len(head)-1] = e.Reply
		if i == 0 || d.Events[i-1].At != e.At {
			cells[0] = e.At.String()
		}
		if e.Client >= 0 {
			cells[1+e.Client] = e.Does
		}
		rows = append(rows, cells)
	}
	return head, rows
}

// String is the diagram as a table in Markdown with columns that a terminal shows, too, and a list of what came of it.
func (d Diagram) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	head, rows := d.Cells()
	rule := slices.Repeat([]string{"---"}, len(head))
	for _, cells := range slices.Concat([][]string{head, rule}, rows) {
		fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| "))
	}
	w.Flush()
	return b.String() + "\n- " + strings.Join(d.End, "\n- ") + "\n"
}
