package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/marketsim/marketsim/market/backend"
)

// commandLine is what was typed, with the secrets of URLs removed.
func commandLine(args []string) string {
	shown := []string{strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")}
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case joined && (flag == "--redis" || isURL(value)):
			arg = flag + "=" + redact(value)
		case isURL(arg), i > 0 && args[i-1] == "--redis":
			arg = redact(arg)
		default:
			arg = quote(arg)
		}
		shown = append(shown, arg)
	}
	return strings.Join(shown, " ")
}

// quote is a word as a shell reads it.
func quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_./:=,@%+", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// scrub returns err with the secrets of URLs removed from its text, which may quote what was typed in the wrong place,
// and with nothing in it that a terminal obeys.
func scrub(err error, args []string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, arg := range args {
		if flag, value, joined := strings.Cut(arg, "="); joined && strings.HasPrefix(flag, "-") {
			arg = value
		}
		if isURL(arg) { // quoted by itself, and not as the beginning of another
			quoted := regexp.MustCompile(regexp.QuoteMeta(arg) + `($|[^\w/.])`)
			text = quoted.ReplaceAllString(text, strings.ReplaceAll(redact(arg), "$", "$$")+"$1")
		}
	}
	// What was typed may be quoted in part (an element of a list) or with escapes.
	text = regexp.MustCompile(`\b(rediss?|unix)://\S*@`).ReplaceAllStringFunc(text, func(url string) string {
		if strings.HasSuffix(url, ":***@") && strings.Count(url, "@") == 1 {
			return url // it is redacted
		}
		scheme, _, _ := strings.Cut(url, "://")
		return scheme + "://***@"
	})
	return reworded(err, printable(text))
}

// printable is a text, perhaps from a file, without the codes that move a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return '?'
	}, text)
}

// conceal returns err with a password removed where a server repeats it, as Redis repeats the arguments of a command
// that it does not know.
func conceal(err error, password string) error {
	if err == nil || password == "" {
		return err
	}
	text := err.Error()
	for _, quote := range []string{"'", "`", `"`} {
		text = strings.ReplaceAll(text, quote+password+quote, quote+"***"+quote)
	}
	return reworded(err, text)
}

// reworded returns err with another text.
func reworded(err error, text string) error {
	if text == err.Error() {
		return err
	}
	return scrubbed{text, err}
}

// scrubbed is an error with another text.
type scrubbed struct {
	text string
	err  error
}

func (e scrubbed) Error() string { return e.text }
func (e scrubbed) Unwrap() error { return e.err }

// isURL reports whether a text may be a URL, and so may hold a password.
func isURL(text string) bool { return strings.Contains(text, "://") }

// redact is a URL without its secrets.
func redact(url string) string {
	target, err := backend.ParseURL(url)
	if err != nil {
		return "..."
	}
	return target.String()
}
