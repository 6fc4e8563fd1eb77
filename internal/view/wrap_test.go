package view

import (
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
)

// Lines are as full as they can be, and words that are longer than a line are cut.
func TestWrapped(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  []string
	}{
		{"", 5, []string{""}},
		{" \n\t ", 5, []string{""}},
		{"a bc def", 5, []string{"a bc", "def"}},
		{"abcde f", 5, []string{"abcde", "f"}},
		{"a  b", 3, []string{"a b"}},
		{"a bcdefgh i", 3, []string{"a", "bcd", "efg", "h i"}},
		{"世界 世界", 4, []string{"世界", "世界"}},
		{"世界", 1, []string{"世", "界"}},
		{"ae\u0301e\u0301", 2, []string{"ae\u0301", "e\u0301"}}, // accents that take no column
	} {
		if got := strings.Split(wrapped(test.text, test.limit), "\n"); !equal(got, test.want) {
			t.Errorf("%q in %d columns is %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

func equal(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }

// However long a text or its last word is, it is broken in one pass.
func TestWrappedIsFast(t *testing.T) {
	for name, text := range map[string]string{
		"one word":        strings.Repeat("x", 2<<20),
		"a long last one": "a b " + strings.Repeat("x", 2<<20),
		"many words":      strings.Repeat("word ", 2e5),
	} {
		for _, limit := range []int{1, 16, 100} {
			testkit.Within(t, time.Second, name, func() { wrapped(text, limit) })
		}
	}
}

// FuzzWrapped: nothing is lost, no line is too wide, and lines are broken the same again.
func FuzzWrapped(f *testing.F) {
	for _, text := range []string{
		"", "a bc def", "a bcdefgh i", "世界 e\u0301", "\x80\xff", "\x7f丁", "a\nb\tc\u00a0d",
	} {
		f.Add(text, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, columnsOfLine uint8) {
		limit := max(2, int(columnsOfLine)) // the widest character takes two
		lines := wrapped(text, limit)
		letters := func(s string) string { return strings.Join(strings.Fields(string([]rune(s))), "") }

		if letters(lines) != letters(text) {
			t.Errorf("%q in %d columns is %q", text, limit, lines)
		}
		for line := range strings.SplitSeq(lines, "\n") {
			if columns(line) > limit {
				t.Errorf("%q in %d columns has the line %q", text, limit, line)
			}
		}
		if again := wrapped(lines, limit); again != lines {
			t.Errorf("%q in %d columns is %q, and then %q", text, limit, lines, again)
		}
	})
}
