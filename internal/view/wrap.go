package view

import (
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/marketsim/marketsim/internal/wording"
)

// Results may be somebody else's, and hold words of any length. So a text is first
// shortened (shown), and then broken into lines in one pass (wrapped): tablewriter's own
// wrapping weighs all ways to break a text, and never ends where the last word is longer
// than 46,340 characters. Tables are given to it with cells that are broken already.

// shown is a text of a result as documents show it: of a long one the beginning.
func shown(text string) string {
	return printable(wording.Excerpt(strings.TrimSpace(text), wording.ExcerptBytes))
}

// wrapped breaks a text at spaces into lines of at most this many columns, each as full
// as it can be. A word that is longer than a line begins one, and is cut. The limit is 2
// at least: the widest character takes two columns.
func wrapped(text string, limit int) string {
	var b strings.Builder
	used := 0 // columns of the line that is written

	for word := range strings.FieldsSeq(text) {
		switch {
		case used == 0:
		case used+1+columns(word) <= limit:
			b.WriteByte(' ')
			used++
		default:
			b.WriteByte('\n')
			used = 0
		}

		for _, r := range word {
			wide := column(r)
			if used > 0 && used+wide > limit { // only in a word that is longer than a line
				b.WriteByte('\n')
				used = 0
			}
			b.WriteRune(r)
			used += wide
		}
	}
	return b.String()
}

// columns is how wide a text is on a terminal.
func columns(text string) (wide int) {
	for _, r := range text {
		wide += column(r)
	}
	return wide
}

// column is how wide a character is where no locale makes Greek letters or arrows wide.
func column(r rune) int { return (&runewidth.Condition{}).RuneWidth(r) }
