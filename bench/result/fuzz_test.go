package result_test

import (
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// FuzzParseMix: what is read as a mix is how that mix is written, and nothing else is.
func FuzzParseMix(f *testing.F) {
	for _, text := range []string{"5x1", "1x1", "x", "01x1", "0x0", "5x", "0x5", "10000x10001"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := result.ParseMix(text)
		written := err == nil && m.String() == text
		refused := err != nil && m == (result.Mix{})
		if !written && !refused {
			t.Errorf("%q is read as %v, %v", text, m, err)
		}
	})
}
