package runs_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
)

// TestReadResultRefuses: what marketsim would not have stored is refused, and the error says
// why. What is only unusual is read.
func TestReadResultRefuses(t *testing.T) {
	row := `{"strategy":"fine","mix":"5x5","trial":1,"status":"complete","bought":1}`

	of := func(change, to string) string {
		return `{"schema":6,"status":"complete","rows":[` + strings.Replace(row, change, to, 1) + `]}`
	}

	configured := func(config string) string {
		return `{"schema":6,"status":"complete","manifest":{"config":` + config +
			`},"rows":[` + row + `]}`
	}

	for text, want := range map[string]string{
		"":                                       "it is empty; make it again with 'marketsim run --out DIR'",
		"{":                                      "cut short; make it again with 'marketsim run --out DIR'",
		"\x00\x00":                               "it is not JSON",
		"[]":                                     "the whole is a JSON array",
		"{}":                                     "schema 0",
		`{"schema":1,"status":"complete"}`:       "reads schemas 2 to 6: measure again",
		`{"schema":6}`:                           `unknown status ""`,
		of("", "") + `{}`:                        "after the end",
		of(`}`, `,"added_later":-1}`):            `the field "added_later" is unknown`,
		`{"later":1,"schema":7}`:                 "schema 7; this marketsim reads schemas 2 to 6",
		of("", "") + ` oh`:                       "after the end",
		of(`"bought":1`, `"bought":"1"`):         "bought is a JSON string",
		of(row, ""):                              "it says that it is complete, and has no row",
		of(row, "null"):                          "row 1: it names no strategy",
		of("", row+","):                          "row 2: fine 5x5, trial 1, is there twice",
		of(`"trial":1`, `"rate":9,"trial":0`):    "row 1: trial 0",
		of(`"complete"`, `"zzz"`):                `row 1: unknown status "zzz"`,
		of(`"fine"`, `""`):                       "row 1: it names no strategy",
		of(`}`, `,"rate":9,"arrivals":"often"}`): `row 1: arrivals "often" at the rate 9`,
		of(`}`, `,"arrivals":"constant"}`):       `row 1: arrivals "constant" at the rate 0`,
		of(`}`, `,"markets":1}`):                 "row 1: 1 markets: want 2 or more",
		of(`}`, `,"markets":-2}`):                "row 1: -2 markets",
		of(`}`, `,"masters":[{"markets":1}]}`):   `row 1: the master "" has 1 markets`,
		of(`}`, `,"masters":[{"address":"a:1","markets":1,"bought":-1}]}`):                   `the master "a:1" has 1`,
		of(`}`, `,"masters":[{"address":"a:1","markets":1},{"address":"a:1","markets":1}]}`): `the master "a:1"`,
		of(`"5x5"`, `"0x5"`):                                   "row 1: mix 0x5",
		of(`"5x5"`, `"-1x5"`):                                  `mix "-1x5"`,
		of(`"bought":1`, `"bought":-5`):                        "row 1: bought is -5",
		of(`}`, `,"wait_ms":{"p99":-0.5,"count":1}}`):          "wait_ms_p99 is -0.5",
		of(`}`, `,"refused":{"stale":-1}}`):                    "refused is -1",
		of(`}`, `,"contended_beside":-5}`):                     "contended_beside is -5",
		of(`}`, `,"contended_beside":1}`):                      "contended_beside is 1, of 0",
		of(`}`, `,"course":[2,-1]}`):                           "course[1] is -1",
		of(`}`, `,"course":[2],"course_p50_ms":[1,2]}`):        "percentiles [1 2] of a course of 1 intervals",
		of(`}`, `,"course":[2],"course_p99_ms":[-1]}`):         "percentiles [-1] of a course of 1 intervals",
		configured(`{"axes":[{"name":"x","values":[1]}]}`):     `unknown axis "x"`,
		configured(`{"metrics":["p98"]}`):                      `unknown metric "p98"`,
		configured(`{"metrics":["p99","wait_ms_p99"]}`):        "p99 is there twice",
		of(`}`, `,"server":"valkey"}`):                         `row 1: the server "valkey" is none of the run's`,
		configured(`{"trials":2000000000}`):                    "at most 100000 rounds",
		configured(`{"axes":[{"name":"rtt","values":[2,1]}]}`): "ascending",
		configured(`{"axes":[{"name":"rtt","values":[1,1]}]}`): "each once",
	} {
		_, err := runs.Read(strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), "read result: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}

		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v counts as a lost connection", text, err)
		}
	}

	for what, text := range map[string]string{
		"one row at two rates": of("", strings.Replace(row, `"trial"`, `"rate":1000,"trial"`, 1)+","),
		"an overdrawn market":  of(`}`, `,"audit":{"funds":-1}}`),
	} {
		if _, err := runs.Read(strings.NewReader(text)); err != nil {
			t.Errorf("%s is refused: %v", what, err)
		}
	}
}

// failingWriter is a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestWriteFails(t *testing.T) {
	if err := (&runs.Run{}).Write(failingWriter{}); err == nil {
		t.Error("no error from a full disk")
	}
	err := (&runs.Run{Rows: []result.Row{{Seconds: math.NaN()}}}).Write(new(bytes.Buffer))
	if err == nil {
		t.Error("no error from a number that JSON cannot hold")
	}
}
