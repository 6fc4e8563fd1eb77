package bench

import (
	"math"
	"testing"
)

func TestFairnessOf(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		want   Fairness
	}{
		{nil, Fairness{1, 1, 1}},
		{[]int64{0, 0}, Fairness{1, 1, 1}},
		{[]int64{7, 7, 7}, Fairness{1, 1, 1}},
		{[]int64{12, 0, 0, 0}, Fairness{0, 4, 0.25}},
		{[]int64{1, 3}, Fairness{0.5, 1.5, 0.8}},
	} {
		if got := FairnessOf(c.counts); math.Abs(got.Fewest-c.want.Fewest)+math.Abs(got.Most-c.want.Most)+
			math.Abs(got.Jain-c.want.Jain) > 1e-12 {
			t.Errorf("%v: got %+v, want %+v", c.counts, got, c.want)
		}
	}
}
