package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/verify"
)

// The clock of the second client is an hour ahead in one program of a lock, and an hour behind
// in another. Its gate sets it, see wire.Clock: the client itself may be a program in any
// language, and knows nothing of it. What waits at the gate is as the server gets it. If the lock
// renews itself, that client works for long enough to do so: see schedule.works.
//
// The gate moves whole words. If a time stands inside a longer one (JSON, a script), or may
// have been signed, the program is started under faketime instead. That shifts no static
// binary, such as Go's: then nothing is concluded. Words in which no time can be seen are
// trusted, and the report names them.

// clockStep is how far a clock is set ahead or behind.
const clockStep = time.Hour

// setsClock reports whether the clock of a client is set in a program of a lock.
func setsClock(program string) bool { return program == clockAhead || program == clockBehind }

// clockStep is how far the clock of a client is ahead.
func (o Options) clockStep(client int) time.Duration {
	switch {
	case client == 0 || !setsClock(o.Program):
		return 0
	case o.Program == clockBehind:
		return -clockStep
	}
	return clockStep
}

// errClock is returned where the clock of a client cannot be set, or nothing
// shows that it was.
var errClock = errors.New("the clock of a client was not set")

// A hiddenClock is the error that the gate cannot set a clock, because of a word.
type hiddenClock struct{ word string }

func (h hiddenClock) Error() string {
	return fmt.Sprintf("a clock may be inside %q, which the gate cannot move",
		wording.Excerpt(h.word, 60))
}

// withClock has do play schedules while the gate sets the clock, and where that cannot while
// faketime does.
func (o Options) withClock(do func(Options) error) error {
	err := do(o)
	var hidden hiddenClock
	if !errors.As(err, &hidden) {
		return err
	}

	o.faketime = true
	err = do(o)
	if errors.Is(err, errClock) {
		return fmt.Errorf("%w; %w", hidden, err)
	}
	return err
}

// hidden returns an error if a word has passed that the gate cannot move.
func (w *world) hidden() error {
	if w.faketime || !setsClock(w.program) {
		return nil
	}

	passed := false
	for _, c := range w.clients {
		passed = passed || c.clock.Passed()
		if word := c.clock.Inside(); word != "" {
			return hiddenClock{word}
		}
	}

	// Only where times pass as well may one of them be what was signed.
	if passed && w.signed != "" {
		return hiddenClock{w.signed}
	}
	return nil
}

// underFaketime is a command whose wall clock is ahead; its sleeps are as long as before.
func underFaketime(command []string, ahead time.Duration) ([]string, error) {
	faketime, err := exec.LookPath("faketime")
	if err != nil {
		return nil, fmt.Errorf("%w: faketime is not installed", errClock)
	}

	offset := fmt.Sprintf("%+ds", int(ahead.Seconds()))
	return slices.Concat([]string{faketime, "-m", "-f", offset}, command), nil
}

// checkClock returns an error unless faketime has set the clock of the second client, as both
// say. Unless it was interrupted it is errClock, also without an answer: Judge then leaves the
// promise unchecked, and does not fail.
func (w *world) checkClock() error {
	var at [2]int64
	for i, c := range w.clients {
		answer, _ := w.ask(c, 2*time.Second, program.Now) // empty where it has not answered
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		if _, err := fmt.Sscan(answer.Line, &at[i]); err != nil {
			return fmt.Errorf("%w: the program does not answer the line now", errClock)
		}
	}

	away := time.Duration(at[1]-at[0]) * time.Millisecond
	if w.program == clockBehind {
		away = -away
	}
	if away < clockStep/2 {
		return fmt.Errorf("%w: faketime does not reach the program", errClock)
	}
	return nil
}

// term is that of the lease which a request may begin. If the client has sent a time with it,
// the lease counts from when it sent that, and ends at the first time that was yet to come. If
// not, it counts from now: term is called before the request is let go.
func (c *client) term(h *wire.Held) term {
	t := term{begins: time.Now()}
	for _, command := range h.Commands {
		for _, word := range command[1:] {
			at, is := c.clock.Time(word)
			if !is {
				continue
			}

			t.begins = h.Came
			if at.After(h.Came) && (t.ends.IsZero() || at.Before(t.ends)) {
				t.ends = at
			}
		}
	}
	return t
}

// opaque names the words of the clients in which a clock may be that nobody sees, and returns
// one that may be a signature, or a hash. What both clients send is no such word, nor is the
// name of a lock, a number or a time.
func (o *observation) opaque() (places []string, signed string) {
	for n, requests := range o.requests {
		var commands [][]string
		for _, request := range requests {
			commands = append(commands, request.commands...)
		}

		others := o.words(1 - n)
		for _, command := range commands {
			for i, word := range command {
				if i == 0 || others[word] || isScript(command, i) || !o.isOpaque(n, word) {
					continue
				}
				place := fmt.Sprintf("%s argument %d", strings.ToUpper(command[0]), i)
				places = append(places, place)
				if isSigned(word) {
					signed = cmp.Or(signed, word)
				}
			}
		}
	}
	return distinct(places), signed
}

// words are those that a client has sent.
func (o *observation) words(client int) map[string]bool {
	all := map[string]bool{}
	for _, request := range o.requests[client] {
		for _, word := range slices.Concat(request.commands...) {
			all[word] = true
		}
	}
	return all
}

// distinct are texts, each once, in their order.
func distinct(texts []string) (once []string) {
	for _, text := range texts {
		if !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return once
}

// isOpaque reports whether a word may be anything.
func (o *observation) isOpaque(client int, word string) bool {
	return len(word) >= 8 && !strings.Contains(word, o.locks[client]) && !number.MatchString(word)
}

// isScript reports whether a word of a command is a script, or the hash of one.
func isScript(command []string, place int) bool {
	return place == 1 && strings.HasPrefix(command[0], "eval")
}

// Numbers, and words as long as a SHA or an HMAC is in hexadecimal digits or base64.
var (
	number    = regexp.MustCompile(`^[(\[]?[0-9.eE+-]+$`)
	signature = regexp.MustCompile(`^(` +
		`[0-9a-fA-F]{40}|[0-9a-fA-F]{64}|[0-9a-fA-F]{96}|[0-9a-fA-F]{128}|` +
		`[\w+/-]{27}=|[\w+/-]{43}=?|[\w+/-]{64}|[\w+/-]{86}(==)?)$`)
)

// isSigned reports whether a word, or a part of it, may be a signature or a hash.
func isSigned(word string) bool {
	parts := strings.FieldsFunc(word, func(r rune) bool {
		return strings.ContainsRune(".:;|,", r)
	})
	return slices.ContainsFunc(parts, signature.MatchString)
}

// mostTrusted is how many words a note names.
const mostTrusted = 5

// trustNote says which words were trusted if the lock is said to need no clocks.
func (f judgement) trustNote(promises []verify.PromiseState) []string {
	kept := slices.ContainsFunc(promises, func(p verify.PromiseState) bool {
		return p.Promise == clockIndependent && p.State == "kept"
	})
	if !kept || len(f.trusted) == 0 {
		return nil
	}

	named := slices.Clone(f.trusted)
	if more := len(named) - mostTrusted; more > 0 {
		named = append(named[:mostTrusted], fmt.Sprintf("%d more", more))
	}
	return []string{clockIndependent + ": no clock was seen in what follows, and it was trusted: " +
		english.OxfordWordSeries(named, "and")}
}
