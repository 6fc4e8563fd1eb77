package result_test

import (
	"math"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// threeRounds has two rows in each of three rounds out of six, the second of which is not complete, and one in a fourth.
func threeRounds() *result.Run {
	r := &result.Run{}
	r.Manifest.Config = result.Config{Strategies: []string{"watch", "fine"}, Mixes: []string{"5x1"}, Trials: 6}
	row := func(strategy string, trial int, status result.Status) {
		r.Rows = append(r.Rows, result.Row{Strategy: strategy, Sellers: 5, Buyers: 1, Trial: trial, Status: status})
	}
	row("fine", 1, result.Complete)
	row("watch", 1, result.Complete)
	row("watch", 2, result.Complete)
	row("fine", 2, result.Incomplete)
	row("fine", 3, result.Complete)
	row("watch", 3, result.Complete)
	row("watch", 4, result.Complete)
	return r
}

func TestRounds(t *testing.T) {
	r := threeRounds()
	rounds := r.Rounds()
	if r.Planned() != 6 || len(rounds) != 2 || rounds[0][0].Trial != 1 || rounds[1][0].Trial != 3 || len(rounds[1]) != 2 {
		t.Errorf("of %d rounds, these are complete: %+v", r.Planned(), rounds)
	}
	r.Manifest.Config.Trials = math.MaxInt // as a damaged file may say
	if rounds := r.Rounds(); len(rounds) != 2 {
		t.Errorf("%d rounds are complete", len(rounds))
	}
	r.Manifest.Config.Trials = 0
	if rounds := r.Rounds(); r.Planned() != 1 || len(rounds) != 1 || len(rounds[0]) != len(r.Rows) {
		t.Errorf("an older run has %d rounds", len(rounds))
	}
	if rounds := (&result.Run{}).Rounds(); rounds != nil {
		t.Errorf("a run without rows has %d rounds", len(rounds))
	}
}

func TestSame(t *testing.T) {
	r := threeRounds()
	r.Rows = append(r.Rows, result.Row{Strategy: "other", Sellers: 1, Buyers: 1})
	var got []string
	for _, rows := range r.Same(r.Rows) {
		for _, row := range rows {
			if row.Name() != rows[0].Name() {
				t.Errorf("%s is in the group of %s", row.Name(), rows[0].Name())
			}
		}
		got = append(got, rows[0].Name())
	}
	if want := []string{"other 1x1", "watch 5x1", "fine 5x1"}; !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}
