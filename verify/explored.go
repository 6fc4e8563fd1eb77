package verify

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/marketsim/marketsim/internal/excerpt"
	"github.com/marketsim/marketsim/internal/stored"
)

// Assumed is what a search of schedules takes for granted, and a real network does not.
const Assumed = "commands take no time; timers fire in order, also during a pause; pushes arrive at once; " +
	"what is asked again is struck twice at most; the server is miniredis"

// judged is what is taken for granted of real programs.
const judged = "the server executes one request at a time; a stopped program goes on when the other can do " +
	"something, has ended, or four leases have passed; what asks again for a lock that is held is not struck; one server"

// ExploredSchema is the version of the explored.json format. Fields are added,
// never renamed.
const ExploredSchema = 1

// Explorations are what searches of schedules found, as they are stored: the same
// marketsim finds the same again.
type Explorations struct {
	Schema   int        `json:"schema"`
	Version  string     `json:"version"`          // marketsim's
	Judged   bool       `json:"judged,omitempty"` // real programs were, on a real server
	Searches []Explored `json:"searches"`         // scheme by scheme
	// Asked are the flags of 'marketsim judge' without which a schedule is not played again
	// as it was.
	Asked []string `json:"asked,omitempty"`
	// Promises are those of a lock that was judged.
	Promises []PromiseState `json:"promises,omitempty"`
}

// A PromiseState is what became of a promise of a lock: kept, broken, unchecked, or
// not kept where it was not made.
type PromiseState struct {
	Promise string `json:"promise"`
	State   string `json:"state"`
	Why     string `json:"why,omitempty"`
}

// An Explored is what one search found of a scheme in a program.
type Explored struct {
	Scheme  string `json:"scheme"` // of a judged program, its command as it is typed into a shell
	Program string `json:"program,omitempty"`
	Judged  bool   `json:"judged,omitempty"`       // it is a program
	Why     string `json:"not_explored,omitempty"` // it was not explored
	// The faults that could happen; empty: every kind.
	Of          []string `json:"of,omitempty"`
	Preemptions int      `json:"preemptions"` // of the shortest harm, or the last bounds
	Faults      int      `json:"faults"`
	Schedules   int      `json:"schedules,omitempty"` // with these bounds
	Harmful     int      `json:"harmful,omitempty"`   // how many of them do harm
	// Points and Lost are those of an explore.Report. Both are 0 where Lost is.
	Points  int    `json:"points,omitempty"`
	Lost    int    `json:"lost,omitempty"`
	Stopped string `json:"stopped_by,omitempty"`     // why the search ended before its bounds
	Harm    Harm   `json:"harm,omitempty"`           // of the shortest; empty: nothing was found
	Shows   string `json:"shows,omitempty"`          // what shows it, in words
	Broken  string `json:"broken_promise,omitempty"` // of the scheme, that the harm breaks
	Token   string `json:"token,omitempty"`          // plays the shortest again
	// Of the shortest, for the first harm of each scheme.
	Diagram *Diagram `json:"diagram,omitempty"`
}

// Assumed is what the searches take for granted.
func (r *Explorations) Assumed() string {
	if r.Judged {
		return judged
	}
	return Assumed + "; a late request comes within two leases or two reply time-outs, whichever is longer, after its " +
		"client has given up"
}

// Again is the command that plays a schedule again.
func (r *Explorations) Again(e Explored) string {
	if r.Judged {
		flags := append(slices.Clone(r.Asked), "--replay", e.Token)
		return "marketsim judge " + Shell(flags...) + " -- " + e.Scheme
	}
	return "marketsim explore --replay " + Shell(e.Token)
}

// Shell is a command as it is typed into a shell, on one line.
func Shell(words ...string) string {
	var typed []string
	for _, word := range words {
		switch {
		case strings.ContainsFunc(word, unicode.IsControl):
			escaped := strings.Trim(strconv.QuoteToGraphic(word), `"`)
			typed = append(typed, "$'"+strings.NewReplacer(`\"`, `"`, `'`, `\'`).Replace(escaped)+"'")
		case word == "" || strings.ContainsFunc(word, special):
			typed = append(typed, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
		default:
			typed = append(typed, word)
		}
	}
	return strings.Join(typed, " ")
}

// special reports whether a shell may give a character of a word another meaning.
func special(r rune) bool {
	return !strings.ContainsRune("-_./:=,@%+", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// Concludes reports whether the search found harm, or came to the end of bounds
// within which it could have.
func (e Explored) Concludes() bool {
	return e.Harm != "" || e.Why == "" && e.searched() && e.Stopped == ""
}

// searched reports whether a client could come between two requests of another. A
// judged program is shown as it is.
func (e Explored) searched() bool { return e.Preemptions > 0 || e.Judged }

// Found is what was found, in a cell of a table.
func (e Explored) Found() string {
	switch {
	case e.Why != "":
		return "not explored: " + e.Why
	case e.Harm != "":
		return e.Harm.String() + ": " + e.Shows
	case !e.searched() && e.Stopped == "":
		return "not searched"
	}
	found := "nothing"
	if e.Harmful > 0 { // which other rows are about
		found = "nothing else"
	}
	if e.Lost > 0 {
		found += fmt.Sprintf(", except below %d points of %d", e.Lost, e.Points)
	}
	if e.Stopped != "" {
		found += "; stopped by " + e.Stopped
	}
	return found
}

// Shortest notes the shortest schedule that does harm, with its bounds and its token.
func (e *Explored) Shortest(v Violation, preemptions, faults int, token string) {
	e.Harm, e.Shows, e.Preemptions, e.Faults, e.Token = v.Harm, v.Text, preemptions, faults, token
}

// Broken are the searches whose harm breaks a promise of the scheme.
func (r *Explorations) Broken() []Explored {
	return slices.DeleteFunc(slices.Clone(r.Searches), func(e Explored) bool { return e.Broken == "" })
}

// Write stores what was found as indented JSON.
func (r *Explorations) Write(w io.Writer) error {
	return stored.Encode(w, "what was explored", r, "\t")
}

// ReadExplored reads what Write stored, and refuses what Write would not have.
func ReadExplored(r io.Reader) (*Explorations, error) {
	var res Explorations
	return &res, read(r, "what was explored", "explore", &res, &res.Schema, ExploredSchema)
}

func (r *Explorations) check() error {
	for _, e := range r.Searches {
		switch {
		case e.Scheme == "":
			return fmt.Errorf("a search of the program %q is of no scheme", e.Program)
		case e.Harm != "" && !slices.Contains(Harms(), e.Harm):
			return fmt.Errorf("unknown harm %q of %s", string(e.Harm), e.Scheme)
		case e.Harm != "" && e.Token == "":
			return fmt.Errorf("the harm %q of %s has no token", string(e.Harm), e.Scheme)
		}
		if e.Diagram == nil {
			continue
		}
		for _, event := range e.Diagram.Events {
			if n := len(e.Diagram.Clients); event.Client < -1 || event.Client >= n {
				return fmt.Errorf("the diagram of %s has an event of client %d, and %d clients", e.Scheme, event.Client, n)
			}
		}
	}
	return nil
}

// Sum says what was found of a scheme, and in how many programs: "nothing in 6, sold
// twice in 2". Empty: not searched.
func (r *Explorations) Sum(scheme string) string {
	counts := map[string]int{}
	for _, e := range r.Searches {
		if e.Scheme == scheme {
			counts[cmp.Or(string(e.Harm), e.Found())]++
		}
	}
	var words []string
	for _, found := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s in %d", found, counts[found]))
	}
	return strings.Join(words, ", ")
}

// Brief has one event for a request, of a transaction its commands' names, and neither
// repetitions nor passing time.
func (d Diagram) Brief() Diagram {
	var events []Event
	for _, e := range d.Events {
		last := len(events) - 1
		switch {
		case e.Client < 0 && e.Reply == TimeGoesOn:
		case last >= 0 && e.inRequestOf(events[last]):
			name, _, _ := strings.Cut(e.Does, " ")
			events[last].Does, events[last].Reply = strings.TrimSpace(events[last].Does)+" "+name, e.Reply
		case last >= 0 && events[last].Client == e.Client && events[last].Does == e.Does && events[last].Reply == e.Reply:
		default:
			events = append(events, e)
		}
	}
	return Diagram{Clients: d.Clients, Events: events, End: d.End}
}

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

// inRequestOf reports whether an event is one more command of the request in which
// another one is. What happens to a client is no command, even if it happens at the same
// time.
func (e Event) inRequestOf(other Event) bool {
	happens := strings.HasPrefix(e.Does, "*") || strings.HasPrefix(other.Does, "*")

	return e.Client >= 0 && e.Client == other.Client && e.At == other.At && !happens
}

// Cells are the diagram as a table: what stands above its columns, and a row for each
// event. Of what is very long they have the beginning.
func (d Diagram) Cells() (head []string, rows [][]string) {
	head = slices.Concat([]string{"time"}, d.Clients, []string{"server"})
	for i, name := range head {
		head[i] = excerpt.Of(name, excerpt.Bytes)
	}
	for i, e := range d.Events {
		cells := make([]string, len(head))
		cells[len(head)-1] = excerpt.Of(e.Reply, excerpt.Bytes)
		if i == 0 || d.Events[i-1].At != e.At {
			cells[0] = e.At.String()
		}
		if e.Client >= 0 {
			cells[1+e.Client] = excerpt.Of(e.Does, excerpt.Bytes)
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
	for _, cells := range slices.Concat([][]string{head, rule}, rows) {
		fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| "))
	}
	w.Flush()

	b.WriteByte('\n')
	for _, text := range d.End {
		fmt.Fprintf(&b, "- %s\n", excerpt.Of(text, excerpt.Bytes))
	}
	return b.String()
}
