package main

import (
	"cmp"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/wire"
)

const (
	masked = "***"

	// Passwords of so many characters are replaced wherever they stand: shorter ones are
	// parts of ordinary words.
	longSecret = 4
	// Of longer ones a beginning of so many bytes is replaced, too: of what it does not
	// know, Redis repeats the first 128 bytes.
	longBeginning = 32
)

// passwords keeps those of the user's servers out of what is printed and stored.
// The zero value knows none. It has no lock, and all goroutines that print call hide: a command
// adds what it knows before it starts any of them.
type passwords struct {
	long  []string // each as it is and as it may be written, the longest first
	short []string
}

// add notes passwords. Empty ones are none.
func (s *passwords) add(passwords ...string) {
	for _, password := range passwords {
		switch n := utf8.RuneCountInString(password); {
		case n >= longSecret:
			s.long = append(s.long, spellings(password)...)
		case n > 0:
			s.short = append(s.short, password)
		}
	}
	slices.SortFunc(s.long, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	s.long = slices.Compact(s.long)
}

// spellings are the ways in which servers, URLs, errors, JSON and shells write a password.
func spellings(password string) []string {
	inner := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	inJSON, _ := json.Marshal(password) // of a string it cannot fail
	all := []string{
		password,
		strings.NewReplacer("\r", " ", "\n", " ").Replace(password), // as Redis repeats it in an error
		inner(strconv.Quote(password)), inner(strconv.QuoteToASCII(password)), inner(string(inJSON)),
		strings.ReplaceAll(password, "'", `'\''`),
	}

	inUser, _ := strings.CutPrefix(url.UserPassword("", password).String(), ":")
	for _, escaped := range []string{inUser, url.QueryEscape(password), url.PathEscape(password)} {
		all = append(all, escaped, escape.ReplaceAllStringFunc(escaped, strings.ToLower))
	}
	return all
}

var escape = regexp.MustCompile(`%[0-9A-F]{2}`) // in a URL

// hide returns text without the passwords. s.long has the longest first, so that no part is
// left of one that contains another.
func (s *passwords) hide(text string) string {
	for _, secret := range s.long {
		text = strings.ReplaceAll(text, secret, masked)
		text = hideBeginning(text, secret)
		text = hideCut(text, secret)
	}
	for _, secret := range s.short {
		text = hideShort(text, secret)
	}
	return text
}

// hideBeginning replaces what begins like a long password, and goes on like it for as
// long as it does.
func hideBeginning(text, secret string) string {
	if len(secret) <= longBeginning {
		return text
	}
	beginning, rest := secret[:longBeginning], secret[longBeginning:]

	pieces := strings.Split(text, beginning)
	for i, piece := range pieces[1:] {
		same := 0
		for same < min(len(piece), len(rest)) && piece[same] == rest[same] {
			same++
		}
		pieces[i+1] = piece[same:]
	}
	return strings.Join(pieces, masked)
}

// hideCut replaces what is left of a password where an error was cut in the midst of it.
func hideCut(text, secret string) string {
	pieces := strings.Split(text, wire.CutMark)
	for i, piece := range pieces[:len(pieces)-1] { // the mark stands behind each of these
		for n := len(secret) - 1; n > 0; n-- {
			if whole, ok := strings.CutSuffix(piece, secret[:n]); ok {
				pieces[i] = whole + masked
				break
			}
		}
	}
	return strings.Join(pieces, wire.CutMark)
}

// hideShort replaces a short password between quotes, and where it is a word behind AUTH
// on the same line. URLs are the business of withoutPasswords.
func hideShort(text, secret string) string {
	for _, quote := range []string{"'", "`", `"`} {
		text = strings.ReplaceAll(text, quote+secret+quote, quote+masked+quote)
	}
	word := regexp.MustCompile(`(^|[^\pL\pN_])` + regexp.QuoteMeta(secret) + `($|[^\pL\pN_])`)
	return afterAuth.ReplaceAllStringFunc(text, func(rest string) string {
		return word.ReplaceAllString(rest, "${1}"+masked+"${2}")
	})
}

var afterAuth = regexp.MustCompile(`(?i)\bAUTH\b.*`)

// A redactor writes what it is given to another writer, without the passwords. It is for
// what people read: numbers, too, are replaced where they are like a password.
type redactor struct {
	to        io.Writer
	passwords *passwords
}

// Write implements io.Writer. A password that is in two writes is not seen.
func (r redactor) Write(b []byte) (int, error) {
	_, err := io.WriteString(r.to, r.passwords.hide(string(b)))
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// shownBy is where a redactor writes, of other writers the writer itself.
func shownBy(w io.Writer) io.Writer {
	if r, ok := w.(redactor); ok {
		return r.to
	}
	return w
}

// hideIn takes the passwords out of a run: out of every text that may be the user's or a
// server's. Numbers and the words of marketsim are left, even if one is a password, too:
// the run could not be read otherwise.
func (s *passwords) hideIn(run *runs.Run) {
	m := &run.Manifest
	for _, text := range []*string{&m.Server, &m.ServerVersion, &m.Command, &m.Config.Prefix, &m.Config.Target} {
		*text = s.hide(*text)
	}
	s.hideInScripts(m.Scripts)
	maps := []map[string]string{m.ServerConfig, m.Config.LockServers}
	for i := range m.Servers {
		m.Servers[i].Version = s.hide(m.Servers[i].Version)
		maps = append(maps, m.Servers[i].Config)
	}
	for _, texts := range maps {
		for name, text := range texts {
			texts[name] = s.hide(text)
		}
	}

	// Of a row only what a server or an audit has said may hold a password: names and numbers
	// are marketsim's.
	for i := range run.Rows {
		row := &run.Rows[i]
		for j := range row.Warnings {
			row.Warnings[j].Text = s.hide(row.Warnings[j].Text)
		}
		for j := range row.Audit.Problems {
			row.Audit.Problems[j] = s.hide(row.Audit.Problems[j])
		}
	}
}
