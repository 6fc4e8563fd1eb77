// Package explore goes through every schedule of a few clients: whose request the server
// gets next, which client pauses, dies or loses a reply, and when. It finds what a scheme
// loses without being told where to look, and draws the shortest schedule that loses it.
// If it finds nothing, it says how far it has looked.
//
//	marketsim explore fine:redsync --faults 1 --preemptions 2
//
// The clients run their own code. Their connections lead to a server in memory
// (miniredis), and hold each request until the search delivers it (server.go). Time is
// that of package synctest: it stands still while anybody works, and jumps to the next
// timer when all wait. A schedule is run from its start, each time with another choice
// (search.go). The bounds are raised step by step, preemptions before faults, so that the
// first harm has the fewest faults, and of these the fewest preemptions. What the clients
// do is a [Program]: markettest and locktest have some.
//
// Source: M. Musuvathi, S. Qadeer, "Iterative Context Bounding for Systematic Testing of
// Multithreaded Programs", 2007 (CHESS).
package explore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/verify"
)

// Lease and Reply are those of a Program that does not say otherwise.
const (
	Lease = time.Second
	Reply = 5 * time.Second
)

// A Program is what a few clients do at the same time, from a certain state of a server.
type Program struct {
	Name    string // in tokens and reports: no spaces and no slashes
	Subject string // what the clients use, such as a spec: part of a token
	Prefix  string // of keys: diagrams leave it out
	// LockServers is how many servers the locks have of their own
	// (Session.LockServers), the only ones that Empty, Behind and ServerClock strike.
	// 0: the locks live in the market's server.
	LockServers int
	// Each address that clients dial in the first schedule is one more server of the locks.
	Masters bool
	// How long the locks last: a pause takes one to two of it. 0: the constant.
	Lease time.Duration
	// How long clients wait for a reply, over connections of Session.Dial. 0: the constant.
	Reply time.Duration
	// Those connections send a command again whose reply did not come, as
	// client libraries do.
	Resends  bool
	Observed bool // Session.Seen is asked for
	// Begin fills the server, and returns what the clients of one schedule do. It is
	// called once for each schedule.
	Begin func(*Server) *Trial
}

// A Trial is one schedule's clients, and their judge.
type Trial struct {
	Clients []Client
	// Judge says what is wrong when all have ended or died. Requests that it
	// makes are not held.
	Judge func(*Server) []verify.Violation
	// Vacuous returns an error if the clients do not do what they are there for in the
	// first schedule, in which nothing strikes: a search that finds nothing would then
	// mean nothing. It may be nil.
	Vacuous func() error
}

// A Client is one of the clients. Do returns what it was told, for the diagram. Its
// context is the client's life, which ends when the search kills it, or when the schedule
// is over: the client's goroutines end with it.
type Client struct {
	Name string
	Do   func(ctx context.Context, s *Session) string
}

// Bounds say how far a search goes.
type Bounds struct {
	Preemptions int     // how often a client that could go on has to wait for another one
	Faults      int     // how many faults happen
	Total       int     // of preemptions and faults together; 0: as many as there may be of each
	Kinds       []Fault // which faults; nil: all that the program allows
	Once        bool    // no kind of fault happens twice
	Schedules   int     // how many are played at most; 0: 1,000,000 by Search, any number by Drive
	Exhaustive  bool    // the search goes on after a harm, to the last bound
	Unreduced   bool    // requests that conflict with no other client's are choices, too
}

// A Fault is what can happen to a client, its network or a server, apart from
// another client being faster.
type Fault string

// The faults, and what else can be chosen: a letter each.
const (
	// A client stops for one lease at least, and two at most: with all its connections.
	Pause Fault = "pause"
	// A client dies, after the server has executed a request: that is also
	// before the next one.
	Die  Fault = "die"
	Lose Fault = "lose-reply" // a request is executed, and its connection breaks before the reply
	// Late is a request that is on its way until its client has given up. It comes at any
	// time after that, or is lost after two leases, or after twice as long as its client
	// waits for a reply, whichever is longer.
	Late Fault = "late"
	Drop Fault = "lose-request" // a request is lost before it is executed, and its connection breaks
	// A pipeline is executed in two parts: what comes between, or instead of the second?.
	Split Fault = "split"
	Clock Fault = "clock" // the clock of a client steps by two leases, ahead or back
	Empty Fault = "empty" // a server of the locks is started anew, and holds nothing
	// The one server of the locks is replaced by one that lacks the last write, or two.
	Behind Fault = "behind"
	// ServerClock is the clock of one of several servers of the locks, which steps ahead
	// by two leases: its keys expire.
	ServerClock Fault = "server-clock"

	Deliver  Fault = "d"
	Wake     Fault = "w"
	TimePass Fault = "t" // to the next timer of a client
	Arrive   Fault = "a" // a late request of a client
	CutShort Fault = "c" // the second part of a pipeline is lost, and its connection breaks
)

// Faults are all of them.
func Faults() []Fault {
	return []Fault{Pause, Die, Lose, Late, Drop, Split, Clock, Empty, Behind, ServerClock}
}

// A Choice is what happens at one point of a schedule.
type Choice struct {
	What Fault
	// Which client, from 0; Empty, ServerClock: which server of the locks; Behind:
	// how many writes, from 0.
	N int
	// Split: after how many commands; Clock: 1 is ahead, 2 back; Arrive,
	// Deliver: which one; see stayLate
	At      int
	Preempt bool // another client could have gone on
	// The request conflicts with none: the client that was chosen before still
	// counts as the last.
	Aside bool
}

// IsFault reports whether it is a fault, and not what happens without one.
func (c Choice) IsFault() bool { return len(c.What) > 1 }

// String is the choice in a token.
func (c Choice) String() string {
	text := string(c.What) + strconv.Itoa(c.N+1)
	if c.At > 0 {
		text += "-" + strconv.Itoa(c.At)
	}
	return text
}

const version = "x4" // of tokens: it changes when a token would mean another schedule

// written is a schedule of a program as Replay takes it.
func written(p Program, schedule []Choice) string {
	return strings.Join([]string{version, p.Subject, p.Name, strings.Join(Words(schedule), ".")}, "/")
}

// ParseToken returns the parts of a token that a report printed.
func ParseToken(text string) (subject, program string, steps []string, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 4 || parts[0] != version {
		return "", "", nil, fmt.Errorf("%q is no token of a schedule in version %s: "+
			"search again, and copy one from the report", text, version)
	}
	n := len(parts) - 2 // a test's name may hold slashes, too
	return strings.Join(parts[1:n], "/"), parts[n], strings.Split(parts[n+1], "."), nil
}
