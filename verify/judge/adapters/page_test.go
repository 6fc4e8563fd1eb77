package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify/judge/adapters"
)

// page is docs/adapter.md, which tells authors what a program is told, and what it answers.
func page(t *testing.T) string {
	t.Helper()
	return string(testkit.Must(os.ReadFile("../../../docs/adapter.md"))(t))
}

// Each word of the protocol has an exchange on the page, and each answer to a request stands in
// the section of that request.
func TestWordsOfThePage(t *testing.T) {
	text := page(t)
	words := protocolWords(t)
	if len(words) < 20 || !slices.Contains(words, program.CanCancel) ||
		!slices.Contains(words, "gone") {
		t.Fatalf("the words of the protocol were not found in its source: %q", words)
	}
	for _, word := range words {
		if !inExchange(text, word) {
			t.Errorf("no exchange of the page has the word %q", word)
		}
	}
	for heading, answers := range map[string]string{
		"### acquire NAME":                program.AcquireAnswers,
		"### release":                     program.ReleaseAnswers,
		"### can cancel":                  program.Yes,
		"### cancel":                      program.Cancelled,
		"### buy ITEM BUYER SELLER PRICE": program.BuyAnswers,
		"### list ITEM SELLER PRICE":      program.ListAnswers,
		"## A program to start from":      strings.Join(adapters.Languages("lock"), " "),
	} {
		_, section, _ := strings.Cut(text, "\n"+heading+"\n")
		section, _, _ = strings.Cut(section, "\n##")
		for _, answer := range strings.Fields(answers) {
			if !strings.Contains(section, "`"+answer) && !inExchange(section, answer) {
				t.Errorf("the section %q does not name %q", heading, answer)
			}
		}
	}

	if inExchange("    > acquire a\n    < acquired\n", "lost") {
		t.Error("a page without a word is thought to have it")
	}
}

// protocolWords are all that programs are told and answer, as package program has them.
func protocolWords(t *testing.T) (words []string) {
	t.Helper()
	const file = "../../../internal/program/words.go"
	source := testkit.Must(parser.ParseFile(
		token.NewFileSet(), file, nil, parser.SkipObjectResolution,
	))(t)

	for _, declaration := range source.Decls {
		constants, isGeneral := declaration.(*ast.GenDecl)
		if !isGeneral || constants.Tok != token.CONST {
			continue
		}

		for _, spec := range constants.Specs {
			for i, value := range spec.(*ast.ValueSpec).Values {
				literal, isLiteral := value.(*ast.BasicLit)
				if !isLiteral || literal.Kind != token.STRING {
					continue
				}

				word := testkit.Must(strconv.Unquote(literal.Value))(t)
				if name := spec.(*ast.ValueSpec).Names[i].Name; strings.HasSuffix(name, "Answers") {
					words = append(words, strings.Fields(word)...)
				} else if !strings.HasSuffix(name, "Failures") {
					words = append(words, word)
				}
			}
		}
	}

	orders := []string{
		program.Acquire("a"), program.Buy(market.Order{}), program.List(market.Listing{}),
	}
	for _, order := range orders {
		words = append(words, strings.Fields(order)[0])
	}
	return words
}

// inExchange reports whether a program is told a word in some exchange of a page, or answers it.
func inExchange(page, word string) bool {
	for _, e := range exchanges(page) {
		for _, line := range e.lines {
			for said := range strings.SplitSeq(strings.TrimLeft(line, "<> "), " | ") {
				if said == word || strings.HasPrefix(said, word+" ") {
					return true
				}
			}
		}
	}
	return false
}

// The limits that the page names are those of the protocol.
func TestLimitsOfThePage(t *testing.T) {
	text := page(t)
	for _, row := range []string{
		fmt.Sprintf("starts and connects before | %g minute |", program.StartLimit.Minutes()),
		fmt.Sprintf("each purchase or listing under `--exec` | %g seconds |",
			program.AnswerLimit.Seconds()),
	} {
		if !strings.Contains(text, row) {
			t.Errorf("the page lacks %q", row)
		}
	}
}

// The variables that the page names are those that a program finds.
func TestEnvironmentOfThePage(t *testing.T) {
	text := page(t)
	var found []string
	launch := program.Launch{
		Command: []string{"/bin/sh", "-c", "env"}, Mark: "MARK=1", Lease: time.Second,
	}
	ended := make(chan struct{})
	p := testkit.Must(launch.Start(func(o program.Output) {
		name, _, _ := strings.Cut(o.Line, "=")
		found = append(found, name)
		if o.Ended {
			close(ended)
		}
	}))(t)
	defer p.Close()
	<-ended

	for _, name := range []string{
		"REDIS_HOST", "REDIS_PORT", "REDIS_URL", "LOCK_TTL_MS", "LOCK_RETRY_MS", "KEY_PREFIX",
	} {
		if !slices.Contains(found, name) || !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s is not in the environment, %q, or not on the page", name, found)
		}
	}
}

// An exchange is an example of the page: what programs are told, what they answer, and what
// happens meanwhile.
type exchange struct {
	kind  string   // of program; empty: each
	by    []string // who answers so; nil: all of the kind
	lines []string
}

// exchanges are those of a page: indented lines, of which one at least begins with ">".
func exchanges(page string) (all []exchange) {
	kind := ""
	var block []string
	for line := range strings.Lines(page + "\n") {
		indented, isCode := strings.CutPrefix(line, "    ")
		if isCode {
			block = append(block, strings.TrimSpace(indented))
			continue
		}

		if slices.ContainsFunc(block, func(l string) bool { return strings.HasPrefix(l, "> ") }) {
			e := exchange{kind: kind, lines: block}
			if by, names := strings.CutSuffix(block[0], ":"); names {
				e.by = strings.Split(by, ", ")
				e.lines = block[1:]
			}
			all = append(all, e)
		}
		block = nil
		if heading, is := strings.CutPrefix(line, "## "); is {
			kind = map[string]string{"A lock": "lock", "A purchase": "purchase"}[strings.TrimSpace(heading)]
		}
	}
	return all
}

// isFor reports whether a program of a kind takes part in the exchange. A control does where
// it is named.
func (e exchange) isFor(kind, name string) bool {
	isControl := strings.Contains(name, " ")
	return (e.kind == "" || e.kind == kind) &&
		(e.by == nil && !isControl || slices.Contains(e.by, name))
}

// lease is what the locks of the exchange have. None ends by itself, unless somebody gives up
// after a few.
func (e exchange) lease() time.Duration {
	if slices.Contains(e.lines, "< "+program.TimedOut) {
		return 100 * time.Millisecond
	}
	return time.Hour
}

// Every program that authors start from answers as the page says. With MARKETSIM_JUDGE those
// that are compiled first do, too.
func TestExchanges(t *testing.T) {
	all := exchanges(page(t))
	played := map[string]bool{}
	for _, kind := range []string{"lock", "purchase"} {
		for _, language := range adapters.Languages(kind) {
			name := language + endings[language]
			played[name] = true
			t.Run(kind+"/"+name, func(t *testing.T) {
				if interpreters[language] == "" {
					alone(t)
				}
				text := testkit.Must(adapters.Source(kind, language))(t)
				speak(t, command(t, language, text), all, kind, name)
			})
		}
	}

	controls := map[string]string{"fenced": "lock", "watch": "purchase"}
	for spec := range controls {
		played["marketsim adapter "+spec] = true
	}
	t.Run("controls", func(t *testing.T) {
		alone(t)
		binary := filepath.Join(t.TempDir(), "marketsim")
		compile(t, "go", "build", "-o", binary, "../../../cmd/marketsim")
		for spec, kind := range controls {
			speak(t, []string{binary, "adapter", spec}, all, kind, "marketsim adapter "+spec)
		}
	})

	for _, e := range all {
		for _, name := range e.by {
			if !played[name] {
				t.Errorf("the page has an exchange of %q, and there is no such program", name)
			}
		}
	}
}

// A program that answers otherwise is found out.
func TestExchangesOfALiar(t *testing.T) {
	const liar = `while read -r word; do case $word in acquire*) echo acquired;; *) echo released;; esac; done`
	talk := start(t, []string{"/bin/sh", "-c", liar}, time.Hour)

	sound := exchange{lines: []string{"> acquire a", "< acquired", "> release", "< lost | released"}}
	if err := talk.play(t.Context(), sound); err != nil {
		t.Errorf("what is answered as it should be: %v", err)
	}

	lost := exchange{lines: []string{
		"> acquire a", "< acquired", "(its lease ends)", "> release", "< lost",
	}}
	if err := talk.play(t.Context(), lost); err == nil ||
		!strings.Contains(err.Error(), `"released"`) {
		t.Errorf("a lock that is lost, of which it says otherwise: %v", err)
	}

	if err := talk.play(t.Context(), exchange{lines: []string{"(the moon rises)"}}); err == nil {
		t.Error("a page that says what no test plays passes")
	}
}

// speak plays all exchanges that a program takes part in, by a process for each lease.
func speak(t *testing.T, command []string, all []exchange, kind, name string) {
	t.Helper()
	byLease := map[time.Duration][]exchange{}
	for _, e := range all {
		if e.isFor(kind, name) {
			byLease[e.lease()] = append(byLease[e.lease()], e)
		}
	}

	if len(byLease) == 0 {
		t.Fatal("no exchange of the page is for it")
	}

	for lease, theirs := range byLease {
		talk := start(t, command, lease)
		for _, e := range theirs {
			if err := talk.play(t.Context(), e); err != nil {
				t.Fatalf("%q: %v", e.lines, err) // what it says next may be about this
			}
		}
	}
}

// A talk is one with a program that runs, on a server of its own.
type talk struct {
	*program.Child
	heard  chan program.Output
	server *redis.Client
	keys   market.Keys
}

func start(t *testing.T, command []string, lease time.Duration) talk {
	t.Helper()
	server := testkit.Local(t)
	connect := func() (net.Conn, error) {
		return redisconn.To(server.Target).Connect(context.Background())
	}
	gate := testkit.Must(wire.StartGate(connect))(t) // which knows the password
	t.Cleanup(func() { _ = gate.Close() })

	s := talk{
		heard:  make(chan program.Output, 100),
		server: testkit.Dial(t, server).Client,
		keys:   testkit.Keys(t),
	}
	launch := program.Launch{
		Name:      "the program",
		Command:   command,
		KeyPrefix: s.keys.Prefix(),
		Lease:     lease,
		Server:    url.URL{Scheme: "redis", Host: gate.Addr()},
	}
	s.Child = testkit.Must(launch.Start(func(o program.Output) { s.heard <- o }))(t)
	t.Cleanup(s.Close)
	return s
}

// play tells the program what an exchange says, and returns an error if it answers otherwise.
func (s talk) play(ctx context.Context, e exchange) error {
	err := s.server.FlushAll(ctx).Err()
	suite.Markets()[0].Seed(func(command ...any) {
		err = errors.Join(err, s.server.Do(ctx, command...).Err())
	}, s.keys)
	if err != nil {
		return err
	}

	lock := ""
	for _, line := range e.lines {
		told, isTold := strings.CutPrefix(line, "> ")
		want, isAnswer := strings.CutPrefix(line, "< ")
		held, isHeld := strings.CutPrefix(line, "(another client holds ")
		switch {
		case isTold:
			if name, acquires := strings.CutPrefix(told, "acquire "); acquires {
				lock = s.keys.Prefix() + name
			}
			s.Tell(told)
		case isAnswer:
			err = s.expect(want)
		case isHeld:
			err = s.server.Set(ctx, s.keys.Prefix()+strings.TrimSuffix(held, ")"), "another's", 0).Err()
		case line == "(its lease ends)":
			err = s.server.Del(ctx, lock).Err()
		default:
			err = fmt.Errorf("no test plays %q", line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expect hears the next answer, which has to be one of those that stand on the page. A number
// that stands alone is any, and behind "error" is any text.
func (s talk) expect(want string) error {
	var said program.Output
	select {
	case said = <-s.heard:
	case <-time.After(program.StartLimit):
		return program.SilentFor(program.StartLimit)
	}

	for answer := range strings.SplitSeq(want, " | ") {
		isError := answer == "error" && strings.HasPrefix(said.Line, "error ")
		isNumber := onlyDigits(answer) && onlyDigits(said.Line) && len(answer) == len(said.Line)
		if !said.Ended && (said.Line == answer || isError || isNumber) {
			return nil
		}
	}
	return fmt.Errorf("it says %s, and not %q%s", said.Quoted(), want, s.LastLines())
}

func onlyDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsDigit(r) })
}
