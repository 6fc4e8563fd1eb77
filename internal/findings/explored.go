package findings

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/verify"
)

// SearchAssumptions are what a search of schedules takes for granted, and a real network
// does not grant.
const SearchAssumptions = "commands take no time, which passes only when no client can go on; " +
	"timers fire in order, also during a pause; pushes arrive at once; " +
	"what is asked again is struck twice at most; the server is miniredis"

const (
	// Of a search of marketsim's own schemes, whose faults include late requests.
	lateAssumptions = "; a late request comes within two leases or two reply time-outs, whichever is longer, after its " +
		"client has given up"

	// Of real programs on a real server.
	judgeAssumptions = "the server executes one request at a time; a stopped program goes on when the other can do " +
		"something, has ended, or four leases have passed; what asks again for a lock that is held is struck " +
		"by a cancel alone; one server"
)

// ExplorationsSchema is the version of the explored.json format. Fields are added,
// never renamed. docs/judged-format.md has each of them, which a test compares.
const ExplorationsSchema = 1

// Explorations are what searches of schedules found, as they are stored: the same
// marketsim finds the same again.
type Explorations struct {
	Schema   int           `json:"schema"`
	Version  string        `json:"version"`          // marketsim's
	Judged   bool          `json:"judged,omitempty"` // real programs were, on a real server
	Searches []Exploration `json:"searches"`         // scheme by scheme
	// Scripts are those of the user's that are schemes.
	Scripts []stored.Script `json:"scripts,omitempty"`
	// Asked are the flags of 'marketsim judge' without which a schedule is not played again
	// as it was.
	Asked []string `json:"asked,omitempty"`
	// Notes say what else a reader has to know of how it was judged: leases, a busy machine.
	Notes []string `json:"notes,omitempty"`
	// Replayed is the token of the one schedule that 'marketsim judge --replay' has played.
	Replayed string        `json:"replayed,omitempty"`
	Bounds   *JudgedBounds `json:"bounds,omitempty"` // of what was judged; nil: of a replay, too
	Load     *MachineLoad  `json:"load,omitempty"`   // of the machine when it had been judged
	// Promises are those of a lock that was judged.
	Promises []verify.PromiseState `json:"promises,omitempty"`
}

// An Exploration is what came of searching one scheme in one program: the search could
// not begin (Why), it found nothing (Searched alone), or it found harm (ShortestHarm, too).
type Exploration struct {
	Scheme  string `json:"scheme"` // of a judged program, its command as it is typed into a shell
	Program string `json:"program,omitempty"`
	Judged  bool   `json:"judged,omitempty"`       // it is a program
	Why     string `json:"not_explored,omitempty"` // it was not explored

	Lease *JudgedLease `json:"lease,omitempty"` // of a judged lock

	Searched
	ShortestHarm
}

// Searched says which schedules a search went through.
type Searched struct {
	// The faults that could happen; empty: every kind.
	Of          []string `json:"of,omitempty"`
	Preemptions int      `json:"preemptions"` // of the shortest harm, or the last bounds
	Faults      int      `json:"faults"`
	Schedules   int      `json:"schedules,omitempty"` // with these bounds; of a judged harm: all
	Merged      int      `json:"merged,omitempty"`    // how many ended where an earlier one had been in the same state
	Harmful     int      `json:"harmful,omitempty"`   // how many of them do harm; of a judged harm: this one
	// More preemptions would add nothing: every order of the clients' requests was gone through.
	Complete bool `json:"complete,omitempty"`
	// Points and Lost are those of an explore.Report. Both are 0 where Lost is.
	Points  int    `json:"points,omitempty"`
	Lost    int    `json:"lost,omitempty"`
	Stopped string `json:"stopped_by,omitempty"` // why the search ended before its bounds
}

// ShortestHarm is the shortest schedule that does harm; empty: none was found.
type ShortestHarm struct {
	Harm   verify.Harm `json:"harm,omitempty"`
	Shows  string      `json:"shows,omitempty"`          // what shows it, in words
	Broken string      `json:"broken_promise,omitempty"` // of the scheme, that the harm breaks
	Token  string      `json:"token,omitempty"`          // plays it again
	Replay string      `json:"replay,omitempty"`         // the command of a judged program that does so
	// For the first harm of each scheme.
	Diagram *verify.Diagram `json:"diagram,omitempty"`
}

// Assumptions are what the searches take for granted.
func (r *Explorations) Assumptions() string {
	if r.Judged {
		return judgeAssumptions
	}
	return SearchAssumptions + lateAssumptions
}

// Again is the command that plays a schedule again.
func (r *Explorations) Again(e Exploration) string {
	switch {
	case e.Replay != "":
		return e.Replay
	case r.Judged:
		flags := append(slices.Clone(r.Asked), "--replay", e.Token)
		return "marketsim judge " + process.ShellLine(flags...) + " -- " + e.Scheme
	}

	words := []string{"marketsim", "explore", "--replay", e.Token}
	for _, script := range r.Scripts {
		if script.Name == e.Scheme {
			words = append(words, "--script", script.Flag())
		}
	}
	return process.ShellLine(words...)
}

// Concludes reports whether the search found harm, or came to the end of bounds
// within which it could have.
func (e Exploration) Concludes() bool {
	switch {
	case e.Harm != "":
		return true
	case e.Why != "" || e.Stopped != "":
		return false
	case e.Judged:
		return true // whatever its bounds: a report shows all that was asked of a program
	}
	return e.Preemptions > 0 || e.Complete // without one no client comes between two requests of another
}

// Found is what was found, in a cell of a table.
func (e Exploration) Found() string {
	switch {
	case e.Why != "":
		return "not explored: " + e.Why
	case e.Harm != "":
		return e.Harm.String() + ": " + e.Shows
	case e.Stopped == "" && !e.Concludes():
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

// WithinPreemptions is the bound on preemptions of the search, or those of the harm: a
// number, or "any" where more would add nothing.
func (e Exploration) WithinPreemptions() string {
	if e.Complete && e.Harm == "" {
		return "any"
	}
	return strconv.Itoa(e.Preemptions)
}

// Shortest notes the shortest schedule that does harm, with its bounds and its token.
func (e *Exploration) Shortest(v verify.Violation, preemptions, faults int, token string) {
	e.Harm, e.Shows, e.Preemptions, e.Faults, e.Token = v.Harm, v.Text, preemptions, faults, token
}

// Broken are the searches whose harm breaks a promise of the scheme.
func (r *Explorations) Broken() []Exploration {
	return slices.DeleteFunc(slices.Clone(r.Searches), func(e Exploration) bool { return e.Broken == "" })
}

// Write stores what was found as indented JSON.
func (r *Explorations) Write(w io.Writer) error {
	return stored.Encode(w, "what was explored", r, "\t")
}

// ReadExplorations reads what Write stored, and refuses what Write would not have.
func ReadExplorations(r io.Reader) (*Explorations, error) {
	var res Explorations
	return &res, read(r, "what was explored", "explore", &res, &res.Schema, ExplorationsSchema)
}

func (r *Explorations) check() error {
	for _, e := range r.Searches {
		switch {
		case e.Scheme == "":
			return fmt.Errorf("a search of the program %q is of no scheme", e.Program)
		case e.Harm != "" && !slices.Contains(verify.Harms(), e.Harm):
			return fmt.Errorf("unknown harm %q of %s", string(e.Harm), e.Scheme)
		case e.Harm != "" && e.Token == "":
			return fmt.Errorf("the harm %q of %s has no token", string(e.Harm), e.Scheme)
		}

		if e.Diagram == nil {
			continue
		}
		for _, event := range e.Diagram.Events { // -1 stands for the server
			if n := len(e.Diagram.Clients); event.Client < -1 || event.Client >= n {
				return fmt.Errorf("the diagram of %s has an event of client %d, and %d clients", e.Scheme, event.Client, n)
			}
		}
	}
	return nil
}

// Sum says what was found about a scheme, and in how many programs: "nothing in 6, sold
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
