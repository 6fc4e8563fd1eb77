package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// A diagram notes what happens in a schedule, to draw it.
type diagram struct {
	begin  time.Time
	events []verify.Event
}

// add notes what a client does, and returns the index of the event.
func (d *diagram) add(client int, does, reply string) int {
	at := time.Since(d.begin).Round(100 * time.Microsecond)
	d.events = append(d.events, verify.Event{At: at, Client: client, Does: does, Reply: reply})
	return len(d.events) - 1
}

// addRequest notes a request, and returns the index of its last command's event, the
// one with the reply.
func (d *diagram) addRequest(client int, h *wire.Held, reply string) (last int) {
	for _, command := range h.Commands {
		last = d.add(client, commandLine(command), "")
	}
	d.events[last].Reply = reply
	return last
}

// draw returns what draws the schedule with some harms, and with tokens named by the order
// in which they came.
func (d *diagram) draw(claims []*claim) func([]verify.Violation) verify.Diagram {
	drawn := verify.Diagram{}
	for _, c := range claims {
		drawn.Clients = append(drawn.Clients, c.name)
		drawn.End = append(drawn.End, c.name+": was told last: "+c.answer)
	}
	name := search.Labels{}.Tokens
	for _, e := range d.events {
		e.Does = name(e.Does)
		e.Reply = name(e.Reply)
		drawn.Events = append(drawn.Events, e)
	}

	return func(harms []verify.Violation) verify.Diagram {
		shown := drawn
		for _, v := range harms {
			shown.End = append(slices.Clip(shown.End), "Harm: "+v.String())
		}
		return shown
	}
}

// commandLine is a command as it is drawn.
func commandLine(command []string) string {
	return strings.TrimSpace(strings.ToUpper(command[0]) + " " + strings.Join(command[1:], " "))
}

// identity is the first two words of each command of a request. They identify one that is
// sent again, whose tokens and times may differ.
func identity(h *wire.Held) string {
	var all []string
	for _, command := range h.Commands {
		all = append(all, commandLine(command[:min(2, len(command))]))
	}
	return strings.Join(all, "; ")
}
