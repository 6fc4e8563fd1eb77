// Package explore goes through every schedule of a few clients: whose request the server
// gets next, which client pauses, dies or loses a reply, and when. It finds what a scheme
// loses without being told where to look, and draws the shortest schedule that loses it.
// If it finds nothing, it says how far it has looked.
//
//	marketsim explore fine:redsync --faults 1 --preemptions 2
//
// Most users need [Bounds] alone: locktest.Explore goes through the schedules of a lock,
// and markettest.Explore through those of a purchase. Who writes a [Program] of his own
// calls [Search], and [Replay] for a schedule that a [Report] has found.
//
// The clients run their own code, in goroutines of this process. They dial with
// [Session.Connect], which leads to a server in memory (miniredis) and holds each request
// until the search delivers it. They may sleep: time is that of package synctest, which
// stands still while anybody works, and jumps to the next timer when all wait. They must
// not dial by themselves, and must end with the context that they have.
//
// A schedule is run from its start, each time with another choice. The bounds are raised
// step by step, preemptions before faults, so that the first harm has the fewest faults,
// and of these the fewest preemptions. It ends where it comes to a state in which an earlier
// one has been at no higher cost: see state.go. So the search comes to an end where
// [Unbounded] lets the number of preemptions be any, and what it has not found then is in no
// order of the clients' requests.
//
// Source: M. Musuvathi, S. Qadeer, "Iterative Context Bounding for Systematic Testing of
// Multithreaded Programs", 2007 (CHESS).
package explore

import (
	"context"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/internal/search"
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
	// What Session.ReplyTimeout tells a client: how long to wait for a reply. A late request may
	// come for up to twice that. 0: the constant.
	Reply time.Duration
	// What Session.Resends tells a client: to send a command again whose reply did not come, as
	// client libraries do.
	Resends  bool
	Observed bool // Session.Seen is asked for
	// A client may begin only when a lease has passed, which counts as a preemption: it then
	// meets what has expired by that time, though it would have given up at once.
	BeginsLater bool
	// OnFound is called for the first schedule to each harm when it is found, and
	// OnProgress every 10 s of real time with what is known by then. Both are called between
	// two schedules, and the search waits for them. They may be nil.
	OnFound    func(Found)
	OnProgress func(*Report)
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
	// State is what Judge will go by, as text, but for what follows from each client's own
	// replies: what clients share outside the servers. If it is equal, and all else is, a
	// schedule ends that has come to the state of an earlier one. Nil: none does.
	State func() string
	// Close is called when all clients have ended, whether the end is judged or not. It may be nil.
	Close func()
	// Vacuous returns an error if the clients do not do what they are there for in the
	// first schedule, in which nothing strikes: a search that finds nothing would then
	// mean nothing. It may be nil.
	Vacuous func() error
}

// A Client is one of the clients. Do returns what came of it, a line in the diagram. Its
// context is the client's life, which ends when the search kills it, or when the schedule
// is over: the client's goroutines end with it.
type Client struct {
	Name string // no two clients of a Trial share one
	Do   func(ctx context.Context, s *Session) string
}

// Bounds say how far a search goes. The zero value plays schedules in which nothing
// strikes, and in which a client runs until it waits or ends.
type Bounds struct {
	Preemptions int     // how often a client that could go on has to wait for another one
	Faults      int     // how many faults happen
	Total       int     // of preemptions and faults together; 0: as many as there may be of each
	Kinds       []Fault // which faults; nil: those of Faults that the program allows
	Once        bool    // no kind of fault happens twice
	Schedules   int     // how many are played at most; 0: 1,000,000
	Exhaustive  bool    // the search goes on after a harm, to the last bound
	Unreduced   bool    // requests that conflict with no other client's are choices, too, and all late arrivals
	Unmerged    bool    // schedules are played to their ends, though an earlier one was in their state
	// How long the search goes on at most, in real time; 0: as long as it takes. It ends after
	// the schedule that is played then, and its Report says that it was stopped, and what is
	// known by then.
	Time time.Duration
}

// Unbounded is for Bounds.Preemptions: the search ends when no schedule is left, and what it
// says then is true of every order of the clients' requests.
const Unbounded = search.Unbounded

// A Fault is what can happen to a client, its network or a server, apart from
// another client being faster.
type Fault string

// The faults.
const (
	// A client stops for one lease at least, and two at most: with all its connections.
	Pause Fault = "pause"
	// A client dies, after the server has executed a request: that is also
	// before the next one.
	Die Fault = "die"
	// A request is executed, and its connection breaks before the reply.
	Lose Fault = "lose-reply"
	// Late is a request that is on its way until its client has given up. It comes at any
	// time after that, or is lost after two leases, or after twice as long as its client
	// waits for a reply, whichever is longer.
	Late Fault = "late"
	// A request is lost before it is executed, and its connection breaks.
	Drop Fault = "lose-request"
	// A pipeline is executed in two parts: what comes between, or instead of the second?
	Split Fault = "split"
	// The clock of a client steps by two leases, ahead or back.
	Clock Fault = "clock"
	// A server of the locks is started anew, and holds nothing.
	Empty Fault = "empty"
	// The one server of the locks is replaced by one that lacks the last write, or two.
	Behind Fault = "behind"
	// ServerClock is the clock of one of several servers of the locks, which steps ahead
	// by two leases: its keys expire.
	ServerClock Fault = "server-clock"
	// The context of a call that a client has opened with Session.Call ends: it is
	// cancelled, or its deadline comes. What the client has sent in a connection that it
	// then closes is lost, or executed all the same. It happens where Bounds.Kinds names it.
	Cancel Fault = "cancel"
	// A connection breaks over which nothing is asked: a pooled one, or one that listens for
	// messages. It happens where Bounds.Kinds names it.
	IdleBreak Fault = "idle-break"
)

// Faults are all that happen by default: all but Cancel, since most programs open no calls,
// and IdleBreak, which client libraries hide from most.
func Faults() []Fault {
	return []Fault{Pause, Die, Lose, Late, Drop, Split, Clock, Empty, Behind, ServerClock}
}

// AllFaults are those that have to be named, too.
func AllFaults() []Fault { return append(Faults(), Cancel, IdleBreak) }

// ErrChance is in what Search returns, or in Report.Stopped if harm had been found
// before: the clients do not do the same in the same schedule.
var ErrChance = search.ErrChance

// Search goes through the schedules of a program within bounds, or until the context
// ends. What it finds is no failure: see Report. An error says why nothing can be
// concluded. It works in any process, not only in tests, but nothing else may run at the
// same time: sources of chance that the whole process shares are fixed meanwhile.
func Search(ctx context.Context, p Program, b Bounds) (*Report, error) {
	return newExplorer(p, b).search(ctx)
}

// Replay plays the schedule of a token that a report of the same program has
// printed. The harm that it returns is empty if the schedule does none. An error
// says which step cannot be chosen. The context is not used: a replay cannot be cancelled.
func Replay(ctx context.Context, p Program, token string) (f Found, err error) {
	subject, name, steps, err := search.ParseToken(token)
	if err == nil && (subject != p.Subject || name != p.Name) {
		err = fmt.Errorf("the token is of %s, %s, and this is %s, %s", subject, name, p.Subject, p.Name)
	}
	if err != nil {
		return f, err
	}

	// A token does not hold the bounds of its search: these leave out no step that it may have.
	e := newExplorer(p, Bounds{
		Unreduced: true, Preemptions: len(steps), Faults: len(steps), Kinds: AllFaults(),
	})
	err = e.afterFirst(func() error {
		found, err := search.Replay(p.named(), e, steps)
		f = foundOf(found)
		f.Token = token
		return err
	})
	return f, err
}

// named is what tokens call it.
func (p Program) named() search.Program { return search.Program{Subject: p.Subject, Name: p.Name} }
