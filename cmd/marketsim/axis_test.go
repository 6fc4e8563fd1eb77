package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

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
		axis, err := parseAxis(text)
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

func TestParseAxesRefuses(t *testing.T) {
	for texts, want := range map[string]string{
		"clients":                 "--axis clients: want NAME=VALUES, such as clients=1,2,4..64",
		"":                        "want NAME=VALUES",
		"clients=":                "--axis clients=: it has no values; write for example clients=1,2,4..64",
		"hold= ":                  "it has no values; write for example hold=0,1ms,10ms",
		"cores=1,2":               `there is no axis "cores"; known: clients, hot, hold, rtt`,
		"=1":                      `there is no axis ""`,
		"clients=1,,2":            `"": it takes whole numbers from 1 to 1000`,
		"clients=0,1":             `"0": it takes whole numbers from 1 to 1000`,
		"clients=-1":              `"-1": it takes whole numbers`,
		"clients=1.5":             `"1.5": it takes whole numbers`,
		"clients=+5":              `"+5": it takes whole numbers`,
		"clients=1e3":             `"1e3": it takes whole numbers`,
		"clients=1001":            `"1001": it takes whole numbers from 1 to 1000`,
		"clients=9999999999999":   "whole numbers from 1 to 1000",
		"clients=4,2":             "its values descend at 2: they must ascend",
		"clients=4,4":             "its values are repeated at 4: they must ascend",
		"hold=1ms,1000us":         "its values are repeated at 1ms",
		"clients=1..64":           "1..64 does not say by which steps: put two values before it, as in 1,2,4..64",
		"clients=2,4..64":         "2,4..64 is ambiguous, because the ratio and the difference both arrive at 64",
		"clients=1,2,5..20":       "1,2,5..20 is ambiguous: the three values before the dots have neither one ratio nor one difference",
		"clients=1,2,4..100":      "going on from 4 does not arrive at 100 exactly",
		"clients=1,2,4..4":        "4..4 descends, or stays where it is",
		"clients=8,16,32..16":     "32..16 descends",
		"clients=..64":            `"": it takes whole numbers`,
		"clients=1,2..":           `"": it takes whole numbers`,
		"clients=1,2,4..64..128":  `"64..128": it takes whole numbers`,
		"hold=1":                  `"1": it takes times from 0 to 10s, such as 0.2ms`,
		"hold=-1ms":               `"-1ms": it takes times`,
		"hold=11s":                "it takes times from 0 to 10s",
		"rtt=2s":                  "it takes times from 0 to 1s",
		"rtt=1ns":                 `"1ns": it takes times`,
		"rtt=0.0001ms":            "it takes times",
		"hot=1,2,3..2000":         "more than 1000 values",
		"clients=1 clients=2":     "--axis clients is given twice: put its values into one list",
		"clients=1 hold=0 rtt=0":  "a sweep has at most two axes, and these are clients, hold and rtt",
		"clients=redis://u:p@h,2": "--axis ...: ",
		"hot=1,2,4..1000000":      "does not arrive at 1000000 exactly",
	} {
		_, err := parseAxes(strings.Split(texts, " "))
		if texts == "hold= " {
			_, err = parseAxes([]string{texts})
		}
		if err == nil || !strings.Contains(err.Error(), want) || !isUsage(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want %s", texts, err, want)
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
		axis, err := parseAxis(text)
		if err != nil {
			if !isUsage(err) {
				t.Fatalf("%q: %v is no mistake of the user", text, err)
			}
			return
		}
		if n := len(axis.Values); n == 0 || n > mostValues {
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
		again, err := parseAxis(string(axis.Name) + "=" + strings.Join(words, ","))
		if err != nil || !slices.Equal(again.Values, axis.Values) {
			t.Fatalf("%q is %v, and written out %v, %v", text, axis.Values, again.Values, err)
		}
		config := result.Config{Clients: 1, Axes: []result.Axis{axis}}
		if len(config.Points()) != len(axis.Values) {
			t.Fatalf("%q has %d points", text, len(config.Points()))
		}
	})
}
