package stored_test

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/results/stored"
)

// zeros is /dev/zero.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestReadIsBounded(t *testing.T) {
	var into any
	err := stored.Decode(zeros{}, &into, "marketsim run --out DIR")
	if err == nil || !strings.Contains(err.Error(), "larger than 192 MiB") {
		t.Errorf("a file without an end: %v", err)
	}
}

// What cannot be read is told in words, and never as an error that counts as a lost connection.
func TestDecodeSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":             "it is empty; make it anew with 'marketsim x'",
		`{"a":`:        "it is cut short; make it anew with 'marketsim x'",
		`{"a":"text"}`: "a is a JSON string, which it cannot be",
		"x":            "it is no JSON",
		`{"a":1} {}`:   "data after the end of the result",
	} {
		var into struct {
			A int `json:"a"`
		}
		err := stored.Decode(strings.NewReader(text), &into, "marketsim x")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, s := range []stored.Status{stored.Complete, stored.Incomplete, stored.Interrupted} {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	if err := stored.Status("done").Check(); err == nil {
		t.Error("a status that is none is accepted")
	}
}
