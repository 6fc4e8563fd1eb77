package strategies

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func strategyName(s Strategy) string  { return s.Name }
func lockKindName(k lock.Kind) string { return k.Name }
func paramName(p param.Param) string  { return p.Name }

// find returns the element with the wanted name.
func find[T any](all []T, name func(T) string, wanted string) (T, bool) {
	for _, x := range all {
		if name(x) == wanted {
			return x, true
		}
	}
	var none T
	return none, false
}

func names[T any](all []T, name func(T) string) []string {
	var list []string
	for _, x := range all {
		list = append(list, name(x))
	}
	return list
}

// Unknown says that a name is not known, which ones are, and which of them was probably meant.
func Unknown(what, name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("unknown %s %q: there are none here", what, name)
	}
	message := fmt.Sprintf("unknown %s %q; known: %s", what, name, strings.Join(known, ", "))
	if best, ok := nearest(name, known); ok {
		message += fmt.Sprintf("; did you mean %q?", best)
	}
	return message
}

// nearest returns the known name with the fewest edits from name, if that is at most half its letters.
func nearest(name string, known []string) (best string, ok bool) {
	fewest := 1 + len(name)/2
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(name), k, nil); d < fewest {
			best, fewest, ok = k, d, true
		}
	}
	return best, ok
}
