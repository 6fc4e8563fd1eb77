package main

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// TestFlagsOfOneValue: one that is given twice is refused, whichever it is, because the
// last would win silently. Lists are merged, and a switch may be repeated.
func TestFlagsOfOneValue(t *testing.T) {
	t.Parallel()
	two := map[string][]string{ // by the kind of value
		"string": {"a", "a"}, "int": {"1", "2"}, "int64": {"1", "2"}, "uint64": {"1", "2"},
		"duration": {"1s", "2s"}, "bool": {"true", "false"}, "N": {"1", "any"},
	}
	lists := []string{"stringSlice", "stringArray"}
	checked := 0
	for _, cmd := range newRoot(new(program)).Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind, name := f.Value.Type(), "--"+f.Name
			if slices.Contains(lists, kind) {
				if err := f.Value.Set("a"); err != nil {
					t.Errorf("%s %s: %v", cmd.Name(), name, err)
				}
				if err := f.Value.Set("b"); err != nil || len(f.Value.(pflag.SliceValue).GetSlice()) < 2 {
					t.Errorf("%s %s: given twice it is %s, %v", cmd.Name(), name, f.Value, err)
				}
				return
			}
			values := two[kind]
			if values == nil {
				t.Fatalf("%s %s is a %s: which two values does it take?", cmd.Name(), name, kind)
			}
			checked++
			marketsim(t, cmd.Name(), name+"="+values[0], name+"="+values[1]).exits(t, exitUsage).
				says(t, name+" is given twice, and takes one value: leave one out")
		})
	}
	if checked < 100 {
		t.Errorf("only %d flags take one value", checked)
	}

	marketsim(t, "list", "--locks", "--locks").exits(t, exitFine)
	marketsim(t, "report", "-o", "a", "--output", "b", "c").exits(t, exitUsage).
		says(t, "--output is given twice")
	marketsim(t, "run", "watch", "--redis", "redis://:SECRET@a", "--redis", "redis://:SECRET@b").
		exits(t, exitUsage).says(t, "--redis is given twice").silent(t, "SECRET")
}
