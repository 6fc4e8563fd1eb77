package main

import (
	"strings"
	"testing"
)

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
