package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// Mix is how many workers sell and how many buy, written 5x1.
type Mix struct{ Sellers, Buyers int }

func (m Mix) String() string { return fmt.Sprintf("%dx%d", m.Sellers, m.Buyers) }

// maxWorkers bounds a side of a mix: beyond it one process does not measure Redis, but itself.
const maxWorkers = 10_000

// ParseMix reads a mix such as "5x1". It returns ErrConfig, wrapped, when the text is not one.
func ParseMix(text string) (Mix, error) {
	sellers, buyers, _ := strings.Cut(text, "x")
	s, err1 := strconv.Atoi(sellers)
	b, err2 := strconv.Atoi(buyers)
	m := Mix{s, b}
	if err1 != nil || err2 != nil || m.String() != text || s < 1 || b < 1 || s > maxWorkers || b > maxWorkers {
		return Mix{}, fmt.Errorf("%w: mix %q: want SELLERSxBUYERS with at least one of each, such as 5x1", ErrConfig, text)
	}
	return m, nil
}
