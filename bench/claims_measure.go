package bench

import (
	"fmt"
	"math"
)

// One function for each of bookClaims. Each compares rates and ratios, never counts, because rows may differ in length.

func watchRetriesGrow(e evidence) (string, bool, error) {
	p, err := e.buying("watch", mix1x1, mix5x5)
	if err != nil {
		return "", false, err
	}
	light, full := p[0].Retries/p[0].Bought, p[1].Retries/p[1].Bought
	return byMix(p, "", light, full), full > 0 && full >= growth*light, nil
}

func watchWaitGrows(e evidence) (string, bool, error) {
	p, err := e.buying("watch", mix1x1, mix5x5)
	if err != nil {
		return "", false, err
	}
	light, full := p[0].WaitMS, p[1].WaitMS
	return byMix(p, " ms", light, full), full > 0 && full >= growth*light, nil
}

func noRetries(e evidence, strategy string) (string, bool, error) {
	p, err := e.buying(strategy, bookMixes...)
	if err != nil {
		return "", false, err
	}
	holds := true
	values := make([]float64, len(p))
	for i, row := range p {
		values[i] = 1000 * row.Retries / row.Bought
		holds = holds && values[i] <= retriesPer1000
	}
	return byMix(p, " per 1,000 purchases", values...), holds, nil
}

func coarseFollowsMix(e evidence) (string, bool, error) {
	p, err := e.buying("coarse", bookMixes...)
	if err != nil {
		return "", false, err
	}
	holds := true
	values := make([]float64, len(p))
	for i, row := range p {
		want := float64(row.Sellers) / float64(row.Buyers)
		values[i] = row.Listed / row.Bought
		holds = holds && math.Abs(values[i]-want) <= within*want
	}
	return "listed/bought " + byMix(p, "", values...), holds, nil
}

func fineBuysMore(e evidence) (string, bool, error) {
	coarse, err := e.buying("coarse", bookMixes...)
	if err != nil {
		return "", false, err
	}
	fine, err := e.all("fine", bookMixes...)
	if err != nil {
		return "", false, err
	}
	holds := true
	values := make([]float64, len(fine))
	for i := range fine {
		values[i] = fine[i].PerSecond(fine[i].Bought) / coarse[i].PerSecond(coarse[i].Bought)
		holds = holds && values[i] > 1
	}
	return byMix(fine, " times", values...), holds, nil
}

func fineTotalsAlike(e evidence) (string, bool, error) {
	p, err := e.all("fine", bookMixes...)
	if err != nil {
		return "", false, err
	}
	values := make([]float64, len(p))
	mean := 0.0
	for i, row := range p {
		values[i] = row.PerSecond(row.Listed + row.Bought)
		mean += values[i] / float64(len(p))
	}
	if mean == 0 {
		return "", false, fmt.Errorf("not judged: fine listed and bought nothing in any mix")
	}
	worst := 0.0
	for _, v := range values {
		worst = max(worst, math.Abs(v-mean)/mean)
	}
	measured := fmt.Sprintf("%s (at most %.0f%% from their mean)", byMix(p, " a second", values...), 100*worst)
	return measured, worst <= within, nil
}

func fineWaitStaysLow(e evidence) (string, bool, error) {
	var wait []float64
	for _, strategy := range []string{"fine", "coarse", "watch"} {
		p, err := e.buying(strategy, mix5x5)
		if err != nil {
			return "", false, err
		}
		wait = append(wait, p[0].WaitMS)
	}
	measured := fmt.Sprintf("%s ms at 5x5; coarse %s ms, watch %s ms", short(wait[0]), short(wait[1]), short(wait[2]))
	return measured, wait[0] < shortWaitMS && wait[0] < wait[1] && wait[0] < wait[2], nil
}
