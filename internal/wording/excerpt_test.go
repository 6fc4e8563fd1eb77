package wording_test

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/wording"
)

// What is left out is counted, no character is cut in two, and what is short stays.
func TestExcerpts(t *testing.T) {
	for _, test := range []struct{ text, of, ends string }{
		{text: "", of: "", ends: ""},
		{text: "12345678", of: "12345678", ends: "12345678"},
		{
			text: "123456789",
			of:   "12345678... (1 bytes left out)",
			ends: "123456... (1 bytes left out) ...89",
		},
		{
			text: "abcdefg" + strings.Repeat("€", 3),
			of:   "abcdefg... (9 bytes left out)",
			ends: "abcdef... (7 bytes left out) ...€",
		},
		{
			text: strings.Repeat("\x80", 20), // no character begins
			of:   strings.Repeat("\x80", 8) + "... (12 bytes left out)",
			ends: strings.Repeat("\x80", 6) + "... (12 bytes left out) ..." + "\x80\x80",
		},
	} {
		if got := wording.Excerpt(test.text, 8); got != test.of {
			t.Errorf("Excerpt(%q) is %q, want %q", test.text, got, test.of)
		}
		if got := wording.Ends(test.text, 8); got != test.ends {
			t.Errorf("Ends(%q) is %q, want %q", test.text, got, test.ends)
		}
	}
}
