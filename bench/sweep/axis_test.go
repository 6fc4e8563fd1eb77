package sweep_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/bench/sweep"
)

// kinds are an axis of each kind of values that there is.
func kinds() []sweep.AxisKind {
	return []sweep.AxisKind{
		{Name: result.Clients, Example: "clients=1,2,4..64", Most: 1000},
		{Name: result.Hot, Example: "hot=1,10,1000", Most: 1_000_000},
		{Name: result.Hold, Example: "hold=0,1ms,10ms", Most: 10_000_000, Timed: true},
		{Name: result.RTT, Example: "rtt=0,0.2ms,1ms,5ms", Most: 1_000_000, Timed: true},
	}
}

func TestParseAxis(t *testing.T) {
	for text, want := range map[string][]float64{
		"clients=5":              {5},
		"clients=1,2,4..64":      {1, 2, 4, 8, 16, 32, 64},
		"clients=1,2,3..6":       {1, 2, 3, 4, 5, 6},
		"clients=10,20,30..60":   {10, 20, 30, 40, 50, 60},
		"clients=10,20..60":      {10, 20, 30, 40, 50, 60}, // doubling does not arrive at 60
		"clients=1,10,100..1000": {1, 10, 100, 1000},
		"clients=1,2,4..16,100":  {1, 2, 4, 8, 16, 100},
		"clients=4,6,9..9":       nil,
		"clients=5, 10":          {5, 10},
		"clients=3,4,8,16..64":   {3, 4, 8, 16, 32, 64}, // the last three count
		"hot=1,10,1000":          {1, 10, 1000},
		"hold=0,1ms,10ms":        {0, 1, 10},
		"hold=0,1ms,2ms..4ms":    {0, 1, 2, 3, 4},
		"hold=0,5ms..20ms":       {0, 5, 10, 15, 20}, // there is no ratio to 0
		"rtt=0,0.2ms,1ms,5ms":    {0, 0.2, 1, 5},
		"rtt=200us,400us..3.2ms": nil,
		"rtt=1us,2us,4us..16us":  {0.001, 0.002, 0.004, 0.008, 0.016},
		"rtt=1s":                 {1000},
	} {
		axis, err := sweep.ParseAxis(text, kinds())
		if want == nil {
			if err == nil {
				t.Errorf("%s is accepted: %v", text, axis.Values)
			}
			continue
		}
		name, _, _ := strings.Cut(text, "=")
		if err != nil || !slices.Equal(axis.Values, want) || string(axis.Name) != name {
			t.Errorf("%s: %v, %v; want %v", text, axis, err, want)
		}
	}
}

// FuzzParseAxis: what is accepted ascends, is not long, and is the same again when it is written out.
func FuzzParseAxis(f *testing.F) {
	for _, text := range []string{
		"clients=1,2,4..64", "hot=1,10,1000", "hold=0,1ms,10ms", "rtt=0,0.2ms,1ms,5ms", "clients=10,20..60", "hold=0,5ms..20ms",
		"clients=", "=", "rtt=1us,3us,9us..6561us", "hot=999999,1000000", "clients=1,2,3..1000",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		axis, err := sweep.ParseAxis(text, kinds())
		if err != nil {
			return
		}
		if n := len(axis.Values); n == 0 || n > sweep.MostValues {
			t.Fatalf("%q has %d values", text, n)
		}
		var words []string
		for i, v := range axis.Values {
			if i > 0 && v <= axis.Values[i-1] {
				t.Fatalf("%q: %v do not ascend", text, axis.Values)
			}
			word := strconv.FormatFloat(v, 'f', -1, 64)
			if axis.Name == result.Hold || axis.Name == result.RTT {
				word += "ms"
			}
			words = append(words, word)
		}
		again, err := sweep.ParseAxis(string(axis.Name)+"="+strings.Join(words, ","), kinds())
		if err != nil || !slices.Equal(again.Values, axis.Values) {
			t.Fatalf("%q is %v, and written out %v, %v", text, axis.Values, again.Values, err)
		}
		config := result.Config{Clients: 1, Axes: []result.Axis{axis}}
		if len(config.Points()) != len(axis.Values) {
			t.Fatalf("%q has %d points", text, len(config.Points()))
		}
	})
}
