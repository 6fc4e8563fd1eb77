package verify

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/marketsim/marketsim/internal/wording"
)

// A Diagram is one schedule as people read it: time downwards, a column a
// client and one for the server.
type Diagram struct {
	Clients []string `json:"clients"`
	Events  []Event  `json:"events"`
	End     []string `json:"end"` // what each client was told, and then what is wrong
}

// TimeGoesOn is the Reply of an event in which nothing happens but that.
const TimeGoesOn = "*time goes on*"

// An Event is one command of a client and the reply to it, or a fault, which
// stands between asterisks.
type Event struct {
	At     time.Duration `json:"at_ns"`  // since the schedule began
	Client int           `json:"client"` // from 0; -1: it happens to the server
	Does   string        `json:"does,omitempty"`
	Reply  string        `json:"reply,omitempty"` // or what happens to the server
}

// Brief has one event for a request, of a transaction its commands' names, and neither
// repetitions nor passing time.
func (d Diagram) Brief() Diagram {
	var events []Event
	for _, e := range d.Events {
		last := len(events) - 1
		switch {
		case e.Client < 0 && e.Reply == TimeGoesOn:
		case last >= 0 && e.inRequestOf(events[last]): // the reply is then that of the last command
			name, _, _ := strings.Cut(e.Does, " ")
			events[last].Does, events[last].Reply = strings.TrimSpace(events[last].Does)+" "+name, e.Reply
		case last >= 0 && events[last].Client == e.Client && events[last].Does == e.Does && events[last].Reply == e.Reply:
		default:
			events = append(events, e)
		}
	}

	return Diagram{Clients: d.Clients, Events: events, End: d.End}
}

// inRequestOf reports whether an event is one more command of the request in which
// another one is. What happens to a client is no command, even if it happens at the same
// time.
func (e Event) inRequestOf(other Event) bool {
	happens := strings.HasPrefix(e.Does, "*") || strings.HasPrefix(other.Does, "*")

	return e.Client >= 0 && e.Client == other.Client && e.At == other.At && !happens
}

// Cells are the diagram as a table: what stands above its columns, and a row for each
// event. Of what is very long they have the beginning. Each Event.Client is one of d.Clients
// or -1: package findings refuses others when it reads a stored diagram.
func (d Diagram) Cells() (head []string, rows [][]string) {
	head = slices.Concat([]string{"time"}, d.Clients, []string{"server"})
	for i, name := range head {
		head[i] = wording.Excerpt(name, wording.ExcerptBytes)
	}

	for i, e := range d.Events {
		cells := make([]string, len(head))
		cells[len(head)-1] = wording.Excerpt(e.Reply, wording.ExcerptBytes)
		if i == 0 || d.Events[i-1].At != e.At {
			cells[0] = e.At.String()
		}
		if e.Client >= 0 {
			cells[1+e.Client] = wording.Excerpt(e.Does, wording.ExcerptBytes)
		}
		rows = append(rows, cells)
	}
	return head, rows
}

// String is the diagram as a table in Markdown with columns that a terminal shows, too,
// and a list of what came of it.
func (d Diagram) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	head, rows := d.Cells()
	rule := slices.Repeat([]string{"---"}, len(head))
	// Nothing is escaped here: a tab, the end of a line or a | in a cell breaks the table.
	for _, cells := range slices.Concat([][]string{head, rule}, rows) {
		fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| "))
	}
	w.Flush()

	b.WriteByte('\n')
	for _, text := range d.End {
		fmt.Fprintf(&b, "- %s\n", wording.Excerpt(text, wording.ExcerptBytes))
	}
	return b.String()
}
