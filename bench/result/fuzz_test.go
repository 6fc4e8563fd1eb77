package result_test

import (
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
)

// FuzzReadRun: no file is a reason to panic, and what is read is written and
// read again as it was.
func FuzzReadRun(f *testing.F) {
	f.Add([]byte(`{"schema":2,"status":"complete","rows":[{"strategy":"fine","mix":"5x5","trial":1,"status":"complete",` +
		`"seconds":1,"bought":1,"wait_ms":{"mean":1.5,"count":1},"refused":{"not_listed":1},"per_buyer":[1],` +
		`"audit":{"done":true,"ok":true,"funds":-1}}],"claims":[{"id":1,"verdict":"holds"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { testkit.ReadAgain(t, data, result.ReadRun) })
}

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
