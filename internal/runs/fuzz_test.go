package runs_test

import (
	"testing"

	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
)

// FuzzReadRun: no file is a reason to panic, and what is read is written and
// read again as it was.
func FuzzReadRun(f *testing.F) {
	f.Add([]byte(`{"schema":2,"status":"complete","rows":[{"strategy":"fine","mix":"5x5","trial":1,"status":"complete",` +
		`"seconds":1,"bought":1,"wait_ms":{"mean":1.5,"count":1},"refused":{"not_listed":1},"per_buyer":[1],` +
		`"audit":{"done":true,"ok":true,"funds":-1}}],"claims":[{"id":1,"verdict":"holds"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { testkit.ReadAgain(t, data, runs.Read) })
}
