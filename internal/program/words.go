// Package program speaks with programs that authors write in any language: locks and
// purchases that judge searches, and purchases that run --exec measures. A program reads
// requests from its standard input, and answers each on its standard output, a line each.
// words.go has what both say, process.go starts, stops and ends a program, and strategy.go
// makes a strategy of one. An author reads the same in the help of marketsim judge, and
// starts from one of package adapters.
package program

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/market"
)

// Requests without a name behind them: to release the lock that was acquired last, to tell
// the time in milliseconds since 1970, and to say whether the program hears Cancel, which a
// program that does answers with Yes. Cancel has no answer of its own: it ends the acquire or
// the release that is under way, whose answer may then be Cancelled.
const (
	Release   = "release"
	Now       = "now"
	CanCancel = "can cancel"
	Cancel    = "cancel"
)

// Acquire is the request to acquire a lock.
func Acquire(lock string) string { return "acquire " + lock }

// Buy is the request to make an order.
func Buy(o market.Order) string {
	return fmt.Sprint("buy ", o.Item, " ", o.Buyer, " ", o.Seller, " ", o.Price)
}

// List is the request to offer an item.
func List(l market.Listing) string {
	return fmt.Sprint("list ", l.Item, " ", l.Seller, " ", l.Price)
}

// Words with which answers begin.
const (
	Acquired = "acquired" // perhaps with a fencing token
	TimedOut = "timeout"
	Released = "released"
	Lost     = "lost" // the lock was not the program's any more
	Bought   = "bought"
	Yes      = "yes"
	// The call has ended because of Cancel: nobody knows what it has done.
	Cancelled = "cancelled"
)

// The words with which the answer to each request may begin, unless it was cancelled.
const (
	AcquireAnswers = "acquired timeout error"
	ReleaseAnswers = "released lost done error"
	BuyAnswers     = "bought gone price funds busy error"
	ListAnswers    = "listed busy error"
	// The answers that do not say what a cancelled release has done.
	ReleaseFailures = "cancelled error"
)

// How long a program may take to answer its first request, which it does once it has
// started and connected, and any other one.
const (
	StartLimit  = time.Minute
	AnswerLimit = 10 * time.Second
)

// ErrOutcomeUnknown is what the answer "error" means: the order may have been made.
var ErrOutcomeUnknown = errors.New("it is not known")

// outcomes are the errors that answers to an order or an offer mean. Nothing was applied,
// unless the error is nil or ErrOutcomeUnknown.
var outcomes = map[string]error{
	Bought:  nil,
	"gone":  market.ErrNotListed,
	"price": market.ErrPriceChanged,
	"funds": market.ErrInsufficientFunds,
	"busy":  market.ErrContended,
	"error": ErrOutcomeUnknown,
}

// ParseOutcome is the error that the first word of an answer to an order or an offer means,
// and whether it means anything.
func ParseOutcome(word string) (err error, known bool) {
	err, known = outcomes[word]
	return err, known
}

// AnswerLine is what a program says of an order that has ended with err; without an
// error it is done.
func AnswerLine(done string, err error) string {
	if err == nil {
		return done
	}
	for answer, outcome := range outcomes {
		if outcome != nil && errors.Is(err, outcome) {
			return answer
		}
	}
	if market.Refused(err) {
		return "busy"
	}
	return "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

// An Output is a line that a program has printed, or the end of the program.
type Output struct {
	From  *Child
	Line  string // without the space around it
	Cut   bool   // the line was longer than longestLine, and is the beginning of it
	Ended bool
}

// Word is the first word of the line.
func (o Output) Word() string {
	word, _, _ := strings.Cut(o.Line, " ")
	return word
}

// Expect returns an error unless the output is a line that begins with one of the words.
func (o Output) Expect(words string) error {
	switch {
	case o.Ended:
		return ErrEnded
	case o.Cut:
		return fmt.Errorf("said a line of more than %d KB: %s", longestLine>>10, o.Quoted())
	case !slices.Contains(strings.Fields(words), o.Word()):
		return fmt.Errorf("said %s, not %q", o.Quoted(), words)
	}
	return nil
}

// Quoted is the line as an error shows it.
func (o Output) Quoted() string {
	return strconv.Quote(wording.Excerpt(o.Line, wording.ExcerptBytes))
}

// ErrSilent is the cause of errors about programs that do not answer, and ErrEnded about those
// that have ended.
var (
	ErrSilent = errors.New("has said nothing")
	ErrEnded  = errors.New("has ended")
)

// SilentFor is the error of a program that has not answered in time.
func SilentFor(limit time.Duration) error {
	return fmt.Errorf("%w for %s: did it flush its output?", ErrSilent, limit.Round(10*time.Millisecond))
}

// WrongAnswer is the error of a program that does not answer a request as it should:
// because of cause, which explanation may explain.
func WrongAnswer(request string, cause error, explanation string) error {
	return fmt.Errorf("it was told %q, and %w%s", request, cause, explanation)
}
