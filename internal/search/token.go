package search

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/verify"
)

// ErrToken is returned for a schedule that a token does not say, or that does not come.
var ErrToken = errors.New("was it copied whole, from a report on the same program?")

const version = "x5" // of tokens: it changes when a token would mean another schedule

// Token is a schedule of a program as ParseToken reads it.
func Token(p Program, steps []Choice) string {
	return strings.Join([]string{version, p.Subject, p.Name, strings.Join(Words(steps), ".")}, "/")
}

// ParseToken returns the parts of a token that a report printed.
func ParseToken(text string) (subject, program string, steps []string, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 4 || parts[0] != version {
		return "", "", nil, fmt.Errorf("%q is no token of a schedule in version %s: "+
			"search again, and copy one from the report",
			wording.Excerpt(text, wording.ExcerptBytes), version)
	}

	n := len(parts) - 2 // a test's name may hold slashes, too
	return strings.Join(parts[1:n], "/"), parts[n], strings.Split(parts[n+1], "."), nil
}

// Words are steps as a token has them.
func Words(steps []Choice) (words []string) {
	for _, c := range steps {
		words = append(words, c.String())
	}
	return words
}

// Follow is the Chooser that chooses the steps of a token.
func Follow(steps []string) Chooser { return (&follower{steps: steps}).choose }

// A follower chooses the steps of a token, one after the other.
type follower struct {
	steps []string
	n     int // so many were chosen
}

// choose chooses the next step. How often time passes quietly depends on which faults may
// still strike, and so on the bounds of the search: where the token does not have it, it
// passes all the same.
func (f *follower) choose(p ChoicePoint) (Choice, error) {
	isNext := func(c Choice) bool { return f.n < len(f.steps) && c.String() == f.steps[f.n] }
	i := slices.IndexFunc(p.Options, isNext)
	switch {
	case i >= 0:
		f.n++
		return p.Options[i], nil
	case p.Options[0].IsQuiet():
		return p.Options[0], nil
	}
	return Choice{}, fmt.Errorf("step %d of the token cannot be chosen: there is %v: %w",
		f.n+1, p.Options, ErrToken)
}

// Replay has a world play the steps of a token. The harm that it returns is empty if they
// do none. If steps are left when the clients have ended, it returns what was played together
// with ErrToken.
func Replay(p Program, w World, steps []string) (f Found, err error) {
	token := &follower{steps: steps}
	played, err := w.Play(token.choose)
	for errors.Is(err, ErrAgain) {
		token = &follower{steps: steps}
		played, err = w.Play(token.choose)
	}
	if err != nil {
		return f, err
	}

	if token.n < len(steps) {
		err = fmt.Errorf("step %d of the token did not come: the clients had ended: %w",
			token.n+1, ErrToken)
	}
	if len(played.Harms) > 0 {
		f = found(p, played, verify.Worst(played.Harms))
		f.Harmful = 1
	}
	f.Diagram = played.Diagram(played.Harms)
	return f, err
}

// random matches what a client may have drawn: a lock's token, a connection's name.
var random = regexp.MustCompile(`[0-9A-Za-z+/=_-]{20,}`)

// Anonymous is a text with ~ in place of what is random in it, so that the same request
// is recognised in other schedules.
func Anonymous(text string) string {
	if len(text) < 20 {
		return text
	}
	return random.ReplaceAllLiteralString(text, "~")
}

// Labels names things in a diagram by the order in which they come.
type Labels map[string]string

// Of is a thing's name: its kind, and a number.
func (n Labels) Of(kind, thing string) string {
	if n[thing] == "" {
		n[thing] = fmt.Sprintf("%s-%d", kind, len(n)+1)
	}
	return n[thing]
}

// Tokens is a text with the name of a token in place of what is random in it.
func (n Labels) Tokens(text string) string {
	return random.ReplaceAllStringFunc(text, func(is string) string {
		return n.Of("token", is)
	})
}
