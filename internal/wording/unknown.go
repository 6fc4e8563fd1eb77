package wording

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
)

// Names returns the name of each, in the same order.
func Names[T any](all []T, name func(T) string) (known []string) {
	for _, x := range all {
		known = append(known, name(x))
	}
	return known
}

// Unknown is the message for a name that is not known. what is the kind of thing that was
// looked for: "strategy". The message lists the known names and suggests the nearest.
func Unknown(what, name string, known []string) string {
	name = Excerpt(name, 200)
	if len(known) == 0 {
		return fmt.Sprintf("unknown %s %q: there are none here", what, name)
	}

	message := fmt.Sprintf("unknown %s %q; known: %s", what, name, strings.Join(known, ", "))
	if nearest := Nearest(name, known); nearest != "" {
		message += fmt.Sprintf("; did you mean %q?", nearest)
	}
	return message
}

// Nearest is the name that takes the fewest edits, or "" if they are more than half as
// many as the name's letters. A wrong letter counts nearly as one left out and one added,
// so that setpx means set-px and not setnx.
func Nearest(name string, known []string) string {
	costs := levenshtein.NewParams().InsCost(2).DelCost(2).SubCost(3)
	nearest := ""
	fewest := 2 + 3*(len(name)/2)
	name = strings.ToLower(name)

	for _, k := range known {
		if len(name) > 4*len(k)+4 { // what is left out alone costs more than the fewest
			continue
		}
		if edits := levenshtein.Distance(name, strings.ToLower(k), costs); edits < fewest {
			nearest, fewest = k, edits
		}
	}
	return nearest
}
