package process

import (
	"strconv"
	"strings"
	"unicode"
)

// ShellLine is a command as it is typed into a shell, on one line.
func ShellLine(words ...string) string {
	var typed []string
	for _, word := range words {
		switch {
		case strings.ContainsFunc(word, unicode.IsControl):
			// Between quotes without a $ the end of a line could not stand on one line.
			escaped := strconv.QuoteToGraphic(word)
			escaped = escaped[1 : len(escaped)-1] // without its quotes
			typed = append(typed, "$'"+strings.NewReplacer(`\"`, `"`, `'`, `\'`).Replace(escaped)+"'")
		case word == "" || strings.ContainsFunc(word, special):
			typed = append(typed, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
		default:
			typed = append(typed, word)
		}
	}
	return strings.Join(typed, " ")
}

// special reports whether a shell may give a character of a word another meaning.
func special(r rune) bool {
	return !strings.ContainsRune("-_./:=,@%+", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}
