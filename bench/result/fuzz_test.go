package result_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// FuzzReadRun: no file is a reason to panic, and what is read is written and read again as it was.
func FuzzReadRun(f *testing.F) {
	f.Add([]byte(`{"schema":2,"status":"complete","rows":[{"strategy":"fine","mix":"5x5","trial":1,"status":"complete",` +
		`"seconds":1,"bought":1,"wait_ms":{"mean":1.5,"count":1},"refused":{"not_listed":1},"per_buyer":[1],` +
		`"audit":{"done":true,"ok":true,"funds":-1}}],"claims":[{"id":1,"verdict":"holds"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { readAgain(t, data, result.ReadRun) })
}

// FuzzReadFaults: the same of the findings of scenarios.
func FuzzReadFaults(f *testing.F) {
	seed, err := json.Marshal(small()) // without indents: go test -fuzz takes long to shorten a long input
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) { readAgain(t, data, result.ReadFaults) })
}

// FuzzParseMix: what is read as a mix is how that mix is written, and nothing else is.
func FuzzParseMix(f *testing.F) {
	for _, text := range []string{"5x1", "1x1", "x", "01x1", "0x0", "5x", "0x5", "10000x10001"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := result.ParseMix(text)
		if err == nil && m.String() != text || err != nil && m != (result.Mix{}) {
			t.Errorf("%q is read as %v, %v", text, m, err)
		}
	})
}

func readAgain[T any, P interface {
	*T
	Write(io.Writer) error
}](t *testing.T, data []byte, read func(io.Reader) (P, error)) {
	res, err := read(bytes.NewReader(data))
	if err != nil {
		if !strings.HasPrefix(err.Error(), "read ") || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: the error is %v", data, err)
		}
		return
	}
	var first, second bytes.Buffer
	if err := res.Write(&first); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	again, err := read(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatalf("%q was read and written as\n%s\nwhich is refused: %v", data, first.Bytes(), err)
	}
	if err := again.Write(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("%q: %v; written\n%s\nand then\n%s", data, err, first.Bytes(), second.Bytes())
	}
}
