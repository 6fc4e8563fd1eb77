package main

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/marketsim/marketsim/internal/findings"
)

// In a command that the user names: what a value is a secret of is named so, in a flag, an
// assignment or a line of JSON; a URL has its password behind the user.
var (
	secretName = regexp.MustCompile(`(?i)^--?[\w-]*` + secretWords + `[\w-]*$`)
	inFlag     = regexp.MustCompile(`(?i)(--?[\w-]*` + secretWords + `[\w-]*(?:\s+|=)["']?)([^\s"'$-][^\s"'&;|)}]*)`)
	assigned   = regexp.MustCompile(`(?i)([\w-]*` + secretWords + `\w*["']?\s?[=:]\s?["']?)([^\s"'$=:/][^\s"'&;|)}]*)`)
	inURL      = regexp.MustCompile(`\w+://[^\s"':@/]*:([^\s"'@]+)@`)
)

const secretWords = `(?:passw|secret|token|auth|key|credential)`

// longValue is how many characters a value has at least that is hidden wherever it stands:
// what is shorter may be an ordinary word, such as "lock".
const longValue = 6

// addIn notes the secrets in a command, and returns the command without them.
func (s *passwords) addIn(command []string) (shown []string) {
	named := false // by the word before
	for _, word := range command {
		if named && !strings.HasPrefix(word, "--") {
			s.addValue(word)
			word = "..."
		}
		named = secretName.MatchString(word)
		for _, secret := range inURL.FindAllStringSubmatch(word, -1) {
			s.addValue(secret[1])
		}

		// After inURL has read the password, which withoutPasswords takes out. What inFlag has
		// hidden assigned finds again: addValue leaves out "...", as shorter than longValue.
		word = withoutPasswords(word)
		for _, pattern := range []*regexp.Regexp{inFlag, assigned} {
			for _, secret := range pattern.FindAllStringSubmatch(word, -1) {
				s.addValue(secret[2]) // what both patterns have in their second group
			}
			word = pattern.ReplaceAllString(word, "$1...")
		}
		shown = append(shown, s.hide(word))
	}
	return shown
}

func (s *passwords) addValue(secret string) {
	if utf8.RuneCountInString(secret) >= longValue {
		s.add(secret)
	}
}

// hideInFound takes the passwords out of what was found with a program: it may have said them,
// in an error, in the text of a harm, or in what it sent. Names, notes and the promises' names
// are marketsim's own. It comes before judgeFlags.note, which makes commands of schemes and
// tokens. A new field of Explorations for what a program says has to be hidden here, too.
func (s *passwords) hideInFound(res *findings.Explorations) {
	for i := range res.Searches {
		found := &res.Searches[i]
		for _, text := range []*string{&found.Scheme, &found.Why, &found.Stopped, &found.Shows, &found.Token} {
			*text = s.hide(*text)
		}

		if found.Diagram == nil {
			continue
		}

		for j := range found.Diagram.Events {
			event := &found.Diagram.Events[j]
			event.Does, event.Reply = s.hide(event.Does), s.hide(event.Reply)
		}
		for j, text := range found.Diagram.End { // harms, and scripts as they were sent
			found.Diagram.End[j] = s.hide(text)
		}
	}

	for i := range res.Promises {
		res.Promises[i].Why = s.hide(res.Promises[i].Why)
	}
}
