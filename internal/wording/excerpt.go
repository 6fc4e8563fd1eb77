// Package wording writes what every message may need: which known name was meant where one
// is not known, and an excerpt of what a program, a server or a file said. A reply of 1 MB,
// or a word of 10 MB in a stored result, would bury what is to be read. An excerpt says how
// much it leaves out; what is stored stays whole.
package wording

import (
	"fmt"
	"unicode/utf8"
)

// ExcerptBytes are shown of one text, such as a cell of a table or the answer of a program.
const ExcerptBytes = 4096

// Excerpt returns a text of at most most bytes as it is. Of a longer one it returns so much of
// the beginning, and how many bytes it leaves out.
func Excerpt(text string, most int) string {
	if len(text) <= most {
		return text
	}
	begin := text[:boundary(text, most)]

	return fmt.Sprintf("%s... (%d bytes left out)", begin, len(text)-len(begin))
}

// Ends returns a text of at most most bytes as it is. Of a longer one it returns three
// quarters of that from the beginning and one quarter from the end, where an error says
// what to do next, and between them how many bytes it leaves out.
func Ends(text string, most int) string {
	if len(text) <= most {
		return text
	}
	begin := text[:boundary(text, most-most/4)]
	end := text[boundary(text, len(text)-most/4):]

	return fmt.Sprintf("%s... (%d bytes left out) ...%s", begin, len(text)-len(begin)-len(end), end)
}

// boundary is the last place at or before i at which a character begins. What is not
// UTF-8 is cut anywhere.
func boundary(text string, i int) int {
	for back := range utf8.UTFMax {
		if at := i - back; at >= 0 && utf8.RuneStart(text[at]) {
			return at
		}
	}
	return i
}
