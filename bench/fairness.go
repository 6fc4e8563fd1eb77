package bench

// Fairness says how evenly something was shared.
type Fairness struct {
	Fewest float64 // the least that anybody got, as a part of an equal share
	Most   float64 // the most
	Jain   float64 // Jain's index: 1 when all got the same, 1/n when one of n got everything
}

// FairnessOf judges how evenly counts are spread. Where nothing was shared it was shared evenly.
//
// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
// Shared Computer Systems", DEC-TR-301, 1984.
func FairnessOf(counts []int64) Fairness {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	if sum == 0 {
		return Fairness{Fewest: 1, Most: 1, Jain: 1}
	}
	share, n := sum/float64(len(counts)), float64(len(counts))
	f := Fairness{Fewest: float64(counts[0]) / share, Most: float64(counts[0]) / share, Jain: sum * sum / (n * squares)}
	for _, c := range counts {
		f.Fewest, f.Most = min(f.Fewest, float64(c)/share), max(f.Most, float64(c)/share)
	}
	return f
}
