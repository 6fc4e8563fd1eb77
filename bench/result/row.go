// Package result holds what a measurement came to. It measures nothing: package bench does.
//
// A [Point] is what is measured: a strategy, a mix of sellers and buyers, and a load. A
// [Row] is one measurement of it, and what marketsim stores as JSON. A [Warning] of a row
// is a code and a value, for which marketsim's reports have the words.
package result

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/stored"
)

// A Row is one measurement of a Point. What ended in the measured time is never mixed
// with what began in it: see bench.
type Row struct {
	Point
	Trial int `json:"trial"` // from 1
	// Status is "complete", "incomplete" (the environment failed) or "interrupted" (by the
	// user).
	Status  string  `json:"status"`
	Seconds float64 `json:"seconds"` // measured time
	// Began is when the measured time began, in whole ms; zero: that is not known.
	Began time.Time `json:"began,omitzero"`
	// Elsewhere: programs of --exec traded, which tell nothing of their locks and
	// commands but, if they like, retries.
	Elsewhere bool `json:"elsewhere,omitempty"`

	// Operations that ended in the measured time.
	Listed int64 `json:"listed"`
	// In an open loop, orders that fell due in it: see Open.LeftOver.
	Bought   int64   `json:"bought"`
	PerBuyer []int64 `json:"per_buyer"` // purchases of each buyer, to show which one starves
	// Course is Purchases in intervals of equal length, the last of which may be shorter;
	// CourseSeconds is that length.
	Course        []int64 `json:"course,omitempty"`
	CourseSeconds float64 `json:"course_seconds,omitempty"`
	// CourseP50MS and CourseP99MS are percentiles of how long the purchases of each of these
	// intervals took, as WaitMS is timed, but at most 1/16 too high; 0: none was made. Rows of
	// older versions have none.
	CourseP50MS []float64 `json:"course_p50_ms,omitempty"`
	CourseP99MS []float64 `json:"course_p99_ms,omitempty"`

	// Operations that began in the measured time, each followed to its end.

	// WaitMS is of purchases made, until locks are released; in an open loop it
	// begins when the order was due.
	WaitMS Latency `json:"wait_ms"`
	// Of purchases of an open loop, from when a buyer took the order.
	ServiceMS  Latency `json:"service_ms,omitzero"`
	ListMS     Latency `json:"list_ms"`                // of successful listings
	GivenUpMS  Latency `json:"given_up_ms"`            // of orders that were refused
	LockWaitMS Latency `json:"lock_wait_ms"`           // of successful purchases: waiting for locks
	LockHoldMS float64 `json:"lock_hold_ms,omitempty"` // mean, of successful purchases: holding them
	// Of orders: aborted transactions and locks' time-outs.
	Retries     int64 `json:"retries"`
	ListRetries int64 `json:"list_retries"`
	Polls       int64 `json:"polls"` // of orders: failed attempts to take a lock
	ListPolls   int64 `json:"list_polls"`
	// Refused are operations certainly not applied, by market.Reason; ContendedBeside are
	// contended listings and looks.
	Refused         map[string]int64 `json:"refused"`
	ContendedBeside int64            `json:"contended_beside,omitempty"`
	// Operations whose outcome the client does not know.
	Unknown int64 `json:"unknown"`
	// Locks found lost after the write was made.
	LeasesLost int64 `json:"leases_lost"`
	// Locks that could not be given back, lost ones excluded.
	FailedReleases int64 `json:"failed_releases"`
	// Operations that had not ended when the row had to.
	Cut int64 `json:"cut,omitempty"`

	// What connections carried for all orders, refused ones included, added up.

	// Market is nil where workers share a connection, because nobody can tell
	// what it carries for whom.
	Market      *Traffic `json:"market,omitempty"`
	LockServers *Traffic `json:"lock_servers,omitempty"` // with servers that only locks use

	// Read at the two ends of the measured time; processor time is in seconds.

	// Of all workers to the servers of their markets; nil as Market.
	Commands *int64 `json:"commands,omitempty"`
	// Of renewals, subscriptions and heartbeats of all workers.
	Background *Traffic `json:"background,omitempty"`
	// Processor time of the main thread of the market's server, of several markets of all their servers;
	// nil: not known.
	ServerCPU *float64 `json:"server_cpu_s,omitempty"`
	// Masters are those on which the row's markets lie, if these are several.
	Masters []Master `json:"masters,omitempty"`
	// Processor time of this process and, on Linux, of the programs of --exec with all that they start.
	ClientCPU *float64 `json:"client_cpu_s,omitempty"`
	OthersCPU *float64 `json:"others_cpu_s,omitempty"` // of other processes of this machine
	StolenCPU *float64 `json:"stolen_cpu_s,omitempty"` // by other virtual machines
	Cores     int      `json:"cores,omitempty"`        // of this machine
	// BusyBuyers is the mean number of buyers that did something, from times
	// clipped to the measured time.
	BusyBuyers   float64 `json:"busy_buyers,omitempty"`
	PresentBuyer float64 `json:"present_buyers,omitempty"` // mean number of buyers that were there

	Open *OpenLoop `json:"open,omitempty"` // nil: the loop was closed

	Audit AuditSummary `json:"audit"`
	// Histogram is of WaitMS: HDR, V2 compressed, base64, in microseconds, with two digits.
	Histogram string    `json:"histogram,omitempty"`
	Warnings  []Warning `json:"warnings,omitempty"`
}

// MarshalJSON leaves out of a row of programs what they have not told and marketsim cannot
// see: it is not 0. What is left out here is in such a row nowhere, because package load
// keeps of it what is stored.
func (r Row) MarshalJSON() ([]byte, error) {
	type all Row // without this method
	if !r.Elsewhere {
		return json.Marshal(all(r))
	}

	// JSON takes a field from here, and not the one of the same name in Row.
	return json.Marshal(struct {
		all

		// What programs may tell.
		Retries     int64 `json:"retries,omitempty"`
		ListRetries int64 `json:"list_retries,omitempty"`

		// What nobody tells: these stay empty.
		Polls          int64    `json:"polls,omitempty"`
		ListPolls      int64    `json:"list_polls,omitempty"`
		LockWaitMS     Latency  `json:"lock_wait_ms,omitzero"`
		LeasesLost     int64    `json:"leases_lost,omitempty"`
		FailedReleases int64    `json:"failed_releases,omitempty"`
		Market         *Traffic `json:"market,omitempty"`
		Commands       *int64   `json:"commands,omitempty"`
		Background     *Traffic `json:"background,omitempty"`
	}{all: all(r), Retries: r.Retries, ListRetries: r.ListRetries})
}

// Latency summarizes times in milliseconds. Percentiles are by nearest rank,
// with two significant digits.
type Latency struct {
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	Count int64   `json:"count"` // how many operations were timed
}

// Traffic is what connections carried.
type Traffic struct {
	// Waits for a reply, however many commands were sent at a time.
	RoundTrips int64 `json:"round_trips"`
	Commands   int64 `json:"commands"`
	Bytes      int64 `json:"bytes"` // sent and received; of etcd, without HTTP/2's headers
}

// A Master is what one of several masters of a Redis Cluster did in the measured time.
type Master struct {
	Address  string   `json:"address"`            // host:port
	Markets  int      `json:"markets"`            // how many of the row's lie on it
	Bought   int64    `json:"bought"`             // purchases that ended, in these markets
	Commands *int64   `json:"commands,omitempty"` // of the workers of these markets; nil as Row.Commands
	CPU      *float64 `json:"cpu_s,omitempty"`    // seconds of its main thread; nil: not known
	Here     bool     `json:"here,omitempty"`     // it runs on the machine of the clients
}

// OpenLoop is what an open loop did: orders fall due at times that are fixed beforehand,
// whether or not a buyer is free. It counts orders that fell due in the measured time:
// Done and Backlog at its end, GivenUp and Late when they ended.
type OpenLoop struct {
	Due     int64 `json:"due"`
	Done    int64 `json:"done"`     // made by the end of the measured time
	Backlog int64 `json:"backlog"`  // neither made nor given up by the end of the measured time
	GivenUp int64 `json:"given_up"` // got nothing within 10 s, or the account was empty
	// Made later than SLO after they were due, given up, or not made when the row ended.
	Late int64 `json:"late"`
	// LeftOver are purchases in the measured time due in the warm-up: not in Bought,
	// where older versions counted them.
	LeftOver int64 `json:"left_over,omitempty"`
}

// AuditSummary is the verdict on a row's market.
type AuditSummary struct {
	Done          bool     `json:"done"` // false: the market could not be read; OK then means nothing
	OK            bool     `json:"ok"`
	Items         int64    `json:"items"` // items accounted for
	Funds         int64    `json:"funds"` // coins found in all accounts
	ItemProblems  int64    `json:"item_problems"`
	MoneyProblems int64    `json:"money_problems"`
	Applied       int64    `json:"settled_applied"`     // operations of unknown outcome found applied
	NotApplied    int64    `json:"settled_not_applied"` // and found not applied
	Problems      []string `json:"problems,omitempty"`  // the first of them
}

// A Warning is what a reader of a row must know. Package view has its words.
type Warning struct {
	Code  Code    `json:"code"`
	Value float64 `json:"value,omitempty"`
	Text  string  `json:"text,omitempty"` // an error's, or a name
}

// Code says what a Warning is about; its comment says what Value and Text hold.
type Code string

// The codes of warnings.
const (
	NothingBought Code = "nothing-bought" // no purchase, in a complete row
	AllBroke      Code = "all-broke"      // every buyer ran out of coins, and the row ended then
	SomeBroke     Code = "some-broke"     // how many buyers ran out of coins
	Clipped       Code = "clipped"        // how many times above 60 s are recorded as 60 s
	// Purchases of the second half over those of the first: below 0.8, or above 1.25.
	Unsteady Code = "unsteady"
	// How many purchases: under 250, so that halves and tails say nothing.
	TooFew Code = "too-few"
	// Waits, followed to their end, over their parts within the row: off 1 by more than 10%.
	ShortForTail Code = "short-for-tail"
	// How many operations of the warm-up were under way at half-time.
	WarmupUnderway Code = "warm-up-underway"
	// LeftOver: how many orders of the warm-up were made in the measured time: over 1% of
	// its own, and more than buyers.
	LeftOver Code = "left-over"
	// Busy over present buyers: off 1 by more than 2%, a defect of the driver.
	TimesOff Code = "times-off"
	WereCut  Code = "cut" // how many operations had not ended when the row had to
	// ClientLimit: the clients used so much, 0 to 1, of the cores, and the
	// server had time left.
	ClientLimit Code = "client-limit"
	// Other processes, or machines, took so much, 0 to 1, of this machine's time.
	Busy Code = "busy"
	// For how many ms, over a tenth of the row or a second, no reply came.
	NoReply Code = "no-reply"
	// The share of orders, over half, whose item was gone, in a row that bought less and less.
	OutOfStock Code = "out-of-stock"
	// How many keys, of this market or not, the server evicted; the audit found no harm.
	Evicted  Code = "evicted"
	KeysStay Code = "keys-stay" // keys could not be removed: Text says why
)

// Warn adds a warning.
func (r *Row) Warn(code Code, value float64, text string) {
	r.Warnings = append(r.Warnings, Warning{code, value, text})
}

// Warned reports whether it has a warning.
func (r *Row) Warned(code Code) bool {
	return slices.ContainsFunc(r.Warnings, func(w Warning) bool { return w.Code == code })
}

// mostOthers is how much of this machine's time, 0 to 1, other processes may take from a
// row whose speed is judged. Less than that, as a browser takes, widens intervals; with
// more, the machine decides what is found.
const mostOthers = 0.2

// Disturbed is how much of this machine's time other processes took, 0 to 1, if that is too
// much to judge the row; else 0.
func (r *Row) Disturbed() float64 {
	for _, w := range r.Warnings {
		if w.Code == Busy && w.Value > mostOthers {
			return w.Value
		}
	}
	return 0
}

// Problem says why the numbers of a row must not be judged, in words that follow its
// name; empty: they may be judged.
func (r *Row) Problem() string {
	switch {
	case r.Status != stored.Complete:
		return "not complete"
	case !r.Audit.Done:
		return "was not audited"
	case !r.Audit.OK:
		return "failed its audit"
	}
	return ""
}

// PerSecond is the throughput: purchases that ended in the measured time, a second.
func (r *Row) PerSecond() float64 { return ratio(float64(r.Purchases()), r.Seconds) }

// Purchases is how many ended in the measured time, orders left over from the warm-up of
// an open loop included.
func (r *Row) Purchases() int64 {
	if r.Open != nil {
		return r.Bought + r.Open.LeftOver
	}
	return r.Bought
}

// Steadiness is the purchases of the second half of a row over those of its first; NaN
// where they are too few to tell, or the row is stored without its Course.
func (r *Row) Steadiness() float64 {
	if !r.EnoughPurchases() {
		return math.NaN()
	}

	var first, second, at float64 // purchases of the halves; when an interval begins, in seconds
	for i, n := range r.Course {
		length := min(r.CourseSeconds, r.Seconds-float64(i)*r.CourseSeconds)
		// The part of the interval that lies in the first half.
		before := max(0, min(length, r.Seconds/2-at)) / length
		first += before * float64(n)
		second += (1 - before) * float64(n)
		at += length
	}
	return min(second/first, 1000) // no infinity: JSON has none
}

// EnoughPurchases reports whether a row has so many that its halves and tails say
// something.
func (r *Row) EnoughPurchases() bool { return r.Bought >= 250 }

// Jain is the index of R. Jain, D. Chiu and W. Hawe (DEC-TR-301, 1984): 1 if all bought
// the same, 1/n if one of n did.
func (r *Row) Jain() float64 {
	var sum, squares float64
	for _, n := range r.PerBuyer {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	return ratio(sum*sum, float64(len(r.PerBuyer))*squares)
}

// ContendedOrders is how many orders that began in the measured time gave up
// under contention.
func (r *Row) ContendedOrders() int64 { return r.Refused["contended"] - r.ContendedBeside }

// ratio is NaN if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}
