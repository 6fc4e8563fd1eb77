package runs_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
)

// TestParseAxes: values before two dots are continued by their ratio or their difference, and
// what cannot be read is refused with the reason.
func TestParseAxes(t *testing.T) {
	for text, want := range map[string][]float64{
		"clients=5":              {5},
		"clients=1,2,4..64":      {1, 2, 4, 8, 16, 32, 64},
		"clients=1,2,3..6":       {1, 2, 3, 4, 5, 6},
		"clients=10,20,30..60":   {10, 20, 30, 40, 50, 60},
		"clients=10,20..60":      {10, 20, 30, 40, 50, 60}, // doubling does not arrive at 60
		"clients=1,10,100..1000": {1, 10, 100, 1000},
		"clients=1,2,4..16,100":  {1, 2, 4, 8, 16, 100},
		"clients=3,4,8,16..64":   {3, 4, 8, 16, 32, 64}, // the last two count
		"hot=1,10,1000":          {1, 10, 1000},
		"hold=0,1ms,10ms":        {0, 1, 10},
		"hold=0,1ms,2ms..4ms":    {0, 1, 2, 3, 4},
		"hold=0,5ms..20ms":       {0, 5, 10, 15, 20}, // there is no ratio to 0
		"rtt=0,0.2ms,1ms,5ms":    {0, 0.2, 1, 5},
		"rtt=1us,2us,4us..16us":  {0.001, 0.002, 0.004, 0.008, 0.016},
		"rtt=1s":                 {1000},
		"markets=1,2,3":          {1, 2, 3},
	} {
		axes, err := runs.ParseAxes([]string{text})
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if err != nil || len(axes) != 1 || !slices.EqualFunc(axes[0].Values, want, near) {
			t.Errorf("%s: %v, %v; want %v", text, axes, err, want)
		}
	}

	for want, texts := range map[string][]string{
		"want one or two": {},
		"NAME=VALUES":     {"clients"},
		`unknown axis "client"; known: clients, hot, hold, rtt, markets; did you mean "clients"?`: {"client=1,2"},
		`unknown axis "color"; known: clients, hot, hold, rtt, markets`:                           {"color=1"},
		"whole numbers":   {"clients=0"},
		"takes times":     {"hold=5"},
		"ascend":          {"clients=2,2"},
		"by which steps":  {"clients=1..5"},
		"does not arrive": {"clients=4,6..15"},
		"there twice":     {"hot=1", "hot=2"},
		"at most 5000":    {"clients=1,2,3..1000", "hot=1,2,3..1000"},
		"must ascend":     {"hold=1ms,0s"},
	} {
		if axes, err := runs.ParseAxes(texts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", texts, axes, err, want)
		}
	}
}

// FuzzParseAxes: what is accepted ascends, is not long, and is the same again
// when it is written out.
func FuzzParseAxes(f *testing.F) {
	for _, text := range []string{
		"clients=1,2,4..64", "hot=1,10,1000", "hold=0,1ms,10ms", "rtt=0,0.2ms,1ms,5ms",
		"clients=10,20..60", "hold=0,5ms..20ms",
		"clients=", "=", "rtt=1us,3us,9us..6561us", "hot=999999,1000000", "clients=1,2,3..1000",
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		axes, err := runs.ParseAxes([]string{text})
		if err != nil {
			return
		}

		axis := axes[0]
		var words []string
		for i, v := range axis.Values {
			if i > 0 && v <= axis.Values[i-1] {
				t.Fatalf("%q: %v do not ascend", text, axis.Values)
			}
			word := strconv.FormatFloat(v, 'f', -1, 64)
			if !axis.Name.Whole() {
				word += "ms"
			}
			words = append(words, word)
		}

		if len(words) == 0 || len(words) > runs.MostPoints {
			t.Fatalf("%q has %d values", text, len(words))
		}

		again, err := runs.ParseAxes([]string{string(axis.Name) + "=" + strings.Join(words, ",")})
		if err != nil || !slices.Equal(again[0].Values, axis.Values) {
			t.Fatalf("%q is %v, and written out %v, %v", text, axis.Values, again, err)
		}

		points := runs.Expand(result.Point{}, []string{"fine", "lua"}, axes)
		if len(points) != 2*len(axis.Values) {
			t.Fatalf("%q has %d points", text, len(points))
		}
	})
}
