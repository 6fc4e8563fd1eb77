package judge

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// A diagram notes what happens in a schedule, to draw it. What is long or random has a name:
// the lock is lock:1, a script script-1, whose text stands below the picture, and what else
// looks drawn token-1.
type diagram struct {
	begin  time.Time
	lock   string // its name in the schedule
	events []verify.Event

	scripts search.Labels // by the hex of their SHA-1
	legend  []string      // the texts of scripts that were sent whole, a line each
}

func newDiagram(lock string) *diagram {
	return &diagram{begin: time.Now(), lock: lock, scripts: search.Labels{}}
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
		last = d.add(client, d.named(command), "")
	}
	d.events[last].Reply = reply
	return last
}

// named is a command with the names of the lock and of its script, and without what a
// terminal would not show.
func (d *diagram) named(command []string) string {
	words := slices.Clone(command)
	switch {
	case len(words) < 2:
	case words[0] == "eval":
		words[1] = d.script(words[1])
	case words[0] == "evalsha":
		words[1] = d.scripts.Of("script", words[1])
	}
	for i, word := range words {
		words[i] = short(printable(d.withLock(word)))
	}
	return commandLine(words)
}

// script is the name of a script that is sent whole, whose text the legend has from now on.
func (d *diagram) script(text string) string {
	sum := sha1.Sum([]byte(text))
	name := d.scripts.Of("script", hex.EncodeToString(sum[:]))
	line := name + ": " + printable(strings.Join(strings.Fields(text), " "))
	if !slices.Contains(d.legend, line) {
		d.legend = append(d.legend, line)
	}
	return name
}

// withLock is a text with the lock's name in the picture.
func (d *diagram) withLock(text string) string {
	if d.lock == "" {
		return text
	}
	return strings.ReplaceAll(text, d.lock, "lock:1")
}

// printable is a word with what cannot be printed escaped.
func printable(word string) string {
	quoted := strconv.Quote(word)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// longestWord is how long an argument may be before it is cut in the middle.
const longestWord = 60

// short is a word, cut in its middle if it is long.
func short(word string) string {
	runes := []rune(word)
	if len(runes) <= longestWord {
		return word
	}
	const half = longestWord / 2
	return string(runes[:half]) + "..." + string(runes[len(runes)-half:])
}

// draw returns what draws the schedule with some harms, and with tokens named by the order
// in which they came.
func (d *diagram) draw(claims []*claim) func([]verify.Violation) verify.Diagram {
	drawn := verify.Diagram{}
	for _, c := range claims {
		drawn.Clients = append(drawn.Clients, c.name)
	}

	labels := search.Labels{} // one for all events: it remembers what it has named
	for _, e := range d.events {
		// What a client sends was made short when it was noted; what it is answered is not.
		e.Does = labels.Tokens(e.Does)
		e.Reply = labels.Tokens(short(printable(d.withLock(e.Reply))))
		drawn.Events = append(drawn.Events, e)
	}
	drawn.End = append(drawn.End, d.legend...)

	return func(harms []verify.Violation) verify.Diagram {
		shown := drawn // whose End stays as it is for other harms: hence Clip
		for _, v := range harms {
			shown.End = append(slices.Clip(shown.End), "Harm: "+v.String())
		}
		return shown
	}
}

// commandLine is a command with its name in upper case.
func commandLine(command []string) string {
	return strings.TrimSpace(strings.ToUpper(command[0]) + " " + strings.Join(command[1:], " "))
}

// identity is the first two words of each command of a request, and the options of SET. They
// identify one that is sent again, whose tokens and times may differ.
func identity(h *wire.Held) string {
	var all []string
	for _, command := range h.Commands {
		line := commandLine(command[:min(2, len(command))])
		if command[0] == "set" {
			line += setOptions(command)
		}
		all = append(all, line)
	}
	return strings.Join(all, "; ")
}

// setOptions are the options of a SET that say what it does, in upper case and in one order,
// each after a space: a SET that writes always, and one that does so if there is no such key,
// are different requests.
func setOptions(command []string) (options string) {
	for _, option := range []string{"NX", "XX", "GET", "KEEPTTL"} {
		is := func(word string) bool { return strings.EqualFold(word, option) }
		if len(command) > 3 && slices.ContainsFunc(command[3:], is) {
			options += " " + option
		}
	}
	return options
}
