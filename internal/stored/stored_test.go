package stored_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/stored"
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

// What cannot be read is told in words, and never as an error that counts as a
// lost connection.
func TestDecodeSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":              "it is empty; make it again with 'marketsim x'",
		`{"a":`:         "it is cut short; make it again with 'marketsim x'",
		`{"a":"text"}`:  "a is a JSON string, which is the wrong type",
		"x":             "it is not JSON",
		`{"a":1} {}`:    "data after the end of the result",
		`{"a":1,"b":2}`: `the field "b" is unknown: the file was damaged or edited, or was stored by another version`,
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

// TestDamagedName: each flip of a bit in a field's name is noticed, but for one that
// makes a letter a capital: such a field is read as before.
func TestDamagedName(t *testing.T) {
	const text = `{"seconds":1,"bought":2,"rows":[{"p99":3}]}`
	type row struct {
		P99 int `json:"p99"`
	}
	var whole struct {
		Seconds int   `json:"seconds"`
		Bought  int   `json:"bought"`
		Rows    []row `json:"rows"`
	}

	for _, name := range regexp.MustCompile(`"\w+":`).FindAllStringIndex(text, -1) {
		for i := name[0]; i < name[1]; i++ {
			for bit := range 8 {
				flipped := []byte(text)
				flipped[i] ^= 1 << bit
				err := stored.Unmarshal(flipped, &whole, "marketsim x")
				same := strings.EqualFold(string(flipped), text)
				if (err == nil) != same {
					t.Errorf("%s: %v", flipped, err)
				}
			}
		}
	}
}

// TestOpen: what is larger than it may be, or no regular file, is not opened.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	if err := os.WriteFile(path, make([]byte, 3<<20), 0o666); err != nil {
		t.Fatal(err)
	}

	f, err := stored.Open(path, 3<<20)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()

	for name, want := range map[string]string{path: "run.json is larger than 2 MiB", dir: dir + " is not a file"} {
		_, err := stored.Open(name, 2<<20)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
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
