package program_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// soon is how long a test waits for what should happen soon, on a busy machine too.
const soon = time.Minute

func TestMain(m *testing.M) { testkit.VerifyNoLeaks(m) }

// What a program says of an outcome means that outcome.
func TestAnswers(t *testing.T) {
	for _, word := range strings.Fields(program.BuyAnswers) {
		err, known := program.ParseOutcome(word)
		said := program.Output{Line: program.AnswerLine(program.Bought, err)}
		if !known || said.Word() != word || said.Expect(program.BuyAnswers) != nil {
			t.Errorf("%q means %v (known: %v), of which a program says %q", word, err, known, said.Line)
		}
	}

	if _, known := program.ParseOutcome("perhaps"); known {
		t.Error("any word is an answer")
	}
	if said := program.AnswerLine("", fmt.Errorf("first: %w", market.ErrContended)); said != "busy" {
		t.Errorf("a wrapped refusal: %q", said)
	}
	if said := program.AnswerLine("", errors.New("two\nlines")); said != "error two; lines" {
		t.Errorf("an error of two lines: %q", said)
	}
}

// A program is told lines, and its own are heard without the space around them, and then
// its end.
func TestProcess(t *testing.T) {
	const script = `read -r word; echo " it was $word, with $LOCK_TTL_MS " ; echo; echo why >&2`
	launch := program.Launch{
		Name:    "Alice",
		Command: []string{"/bin/sh", "-c", script},
		Lease:   time.Second,
	}
	heard := make(chan program.Output, 10)
	p, err := launch.Start(func(o program.Output) {
		heard <- o
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()

	p.Tell("hello")
	p.Wait()
	close(heard)

	var lines []string
	for o := range heard {
		lines = append(lines, fmt.Sprintf("%q %v %v %v", o.Line, o.Ended, o.From == p, o.Expect("it")))
	}
	want := []string{
		`"it was hello, with 1000" false true <nil>`,
		`"" false true said "", not "it"`,
		`"" true true has ended`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}

	if text := p.LastLines(); text != "; its last lines are\n\twhy" {
		t.Errorf("its standard error: %q", text)
	}
}

// A program that ignores the end of its input is closed nevertheless.
func TestCloseEndsAProgram(t *testing.T) {
	launch := program.Launch{Command: []string{"/bin/sh", "-c", "while :; do sleep 1; done"}}
	ended := make(chan program.Output, 1)
	p, err := launch.Start(func(o program.Output) {
		ended <- o
	})
	if err != nil {
		t.Fatal(err)
	}

	p.Close()
	if o := <-ended; !o.Ended {
		t.Errorf("it has said %q", o.Line)
	}

	p.Tell("more") // is no failure
}
