package compare

import (
	"encoding/csv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// enough is the number of rounds, like those of testdata/rounds.csv, that find a slowdown
// of 10% in at least 80 of 100 comparisons.
const enough = 21

// measuredRounds are the rounds of testdata/rounds.csv, in which one strategy
// was measured under two names.
func measuredRounds(t *testing.T) [][2]float64 {
	t.Helper()
	f, err := os.Open("testdata/rounds.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	lines := csv.NewReader(f)
	lines.Comment = '#'
	records, err := lines.ReadAll()
	if err != nil || len(records) != 61 {
		t.Fatalf("%d lines, %v", len(records), err)
	}

	var rounds [][2]float64
	for _, record := range records[1:] {
		a, errA := strconv.ParseFloat(record[1], 64)
		b, errB := strconv.ParseFloat(record[2], 64)
		if errA != nil || errB != nil {
			t.Fatal(record)
		}
		rounds = append(rounds, [2]float64{a, b})
	}
	return rounds
}

// splits counts the verdicts of 1,000 comparisons of n rounds each, drawn from
// those that were measured. In each round chance says which of the two is a,
// and b is then slowed down.
func splits(t *testing.T, rounds int, slowdown float64) map[Conclusion]int {
	t.Helper()
	all := measuredRounds(t)
	rng := rand.New(rand.NewPCG(10, uint64(rounds)))

	found := map[Conclusion]int{}
	for range 1000 {
		var rates [][2]float64
		for _, i := range rng.Perm(len(all))[:rounds] {
			r := all[i]
			if rng.IntN(2) == 0 {
				r[0], r[1] = r[1], r[0]
			}
			rates = append(rates, [2]float64{r[0], r[1] * (1 - slowdown)})
		}

		found[only(t, comparison(0.05, rates...)).Verdict]++
	}
	return found
}

// TestSameStrategy: what is the same is called faster or slower in at most 6 of 100
// comparisons, and as often the one as the other.
func TestSameStrategy(t *testing.T) {
	for _, rounds := range []int{6, 9, enough, 30} {
		found := splits(t, rounds, 0)
		t.Logf("%d rounds: %v", rounds, found)
		if wrong := found[Faster] + found[Slower]; wrong > 60 || found[Faster] > 40 || found[Slower] > 40 {
			t.Errorf("%d rounds find a difference in %d of 1,000: %v", rounds, wrong, found)
		}
	}
}

// TestPlantedSlowdown: one of 10% is found by enough rounds, and is never taken
// for its opposite.
func TestPlantedSlowdown(t *testing.T) {
	for _, rounds := range []int{9, enough - 3, enough} {
		found := splits(t, rounds, 0.1)
		t.Logf("%d rounds: %v", rounds, found)
		if rounds >= enough && found[Faster] < 800 || found[Slower] > 10 {
			t.Errorf("%d rounds find a slowdown of 10%% in %d of 1,000: %v", rounds, found[Faster], found)
		}
	}
}

// TestAllMeasuredRounds, under the names that they were measured with, show no
// difference either.
func TestAllMeasuredRounds(t *testing.T) {
	got := only(t, comparison(0.05, measuredRounds(t)...))
	if got.Verdict != Undecided && got.Verdict != NoDifference || got.Rounds != 60 {
		t.Errorf("%+v, %v to %v", got, got.Low, got.High)
	}
}
