package judge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/search"
)

// step matches what can happen in a schedule, to one of two clients. Which of it can happen
// at a point a world knows.
var step = regexp.MustCompile(`^[a-z]+(-[a-z]+)*[12](-[0-9]+)?$`)

// CheckToken returns an error for what is no token of Judge's.
func CheckToken(token string) error {
	_, name, steps, err := search.ParseToken(token)
	if err != nil {
		return err
	}
	known := append(Options{}.programs(), MarketNames()...)
	if !slices.Contains(known, name) {
		return fmt.Errorf("there is no program %q; there is %s: %w",
			name, strings.Join(known, ", "), search.ErrToken)
	}

	for n, word := range steps {
		if !step.MatchString(word) {
			return fmt.Errorf("step %d of the token, %q, is none: %w", n+1, word, search.ErrToken)
		}
	}
	return nil
}
