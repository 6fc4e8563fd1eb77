package bench

import (
	"errors"
	"fmt"
	"strings"
)

// Pooled is what all trials of one strategy under one mix measured together. Counts are float64, because they are
// only divided, and because numbers read from a file must not overflow.
type Pooled struct {
	Strategy        string
	Sellers, Buyers int
	Trials          int
	Seconds         float64 // measured time of all trials
	Listed          float64
	Bought          float64
	Retries         float64 // of purchases
	WaitMS          float64 // mean over all purchases, in milliseconds; 0 when nothing was bought

	// Problem says why the numbers must not be judged ("is incomplete"). It is empty when they may.
	Problem string
}

// PerSecond is a count as a rate. It is 0 when no time was measured.
func (p Pooled) PerSecond(count float64) float64 {
	if p.Seconds <= 0 {
		return 0
	}
	return count / p.Seconds
}

// Name is the row in words: "watch 5x1".
func (p Pooled) Name() string { return p.Strategy + " " + Mix{p.Sellers, p.Buyers}.String() }

// Pool adds up the trials of a strategy under a mix. It reports false when there is none.
func Pool(rows []Row, strategy string, sellers, buyers int) (Pooled, bool) {
	p := Pooled{Strategy: strategy, Sellers: sellers, Buyers: buyers}
	var waited float64
	for _, r := range rows {
		if r.Strategy != strategy || r.Sellers != sellers || r.Buyers != buyers {
			continue
		}
		p.Trials++
		p.Seconds += r.Seconds
		p.Listed += float64(r.Listed)
		p.Bought += float64(r.Bought)
		p.Retries += float64(r.Retries)
		waited += r.WaitMS.Mean * float64(r.Bought)
		if p.Problem == "" {
			p.Problem = problem(r)
		}
	}
	if p.Bought > 0 {
		p.WaitMS = waited / p.Bought
	}
	return p, p.Trials > 0
}

// problem says why a row must not be judged, or nothing.
func problem(r Row) string {
	possible := r.Seconds >= 1e-3 && r.Seconds <= 1e9 && r.WaitMS.Mean >= 0 && r.WaitMS.Mean <= 1e9
	for _, n := range []int64{r.Listed, r.Bought, r.Retries} {
		possible = possible && n >= 0 && n <= 1e15
	}
	switch {
	case r.Status != Complete:
		return fmt.Sprintf("is %s", r.Status)
	case !r.Audit.Done:
		return "was not audited"
	case !r.Audit.OK:
		return "failed its audit"
	case !possible:
		return "holds impossible numbers"
	}
	return ""
}

// The book's loads.
var (
	mix1x1    = Mix{1, 1}
	mix5x5    = Mix{5, 5}
	bookMixes = []Mix{mix1x1, {5, 1}, mix5x5}
)

// errEmbedded is why nothing is judged on the embedded server.
var errEmbedded = errors.New("numbers of the embedded server are not Redis's: not judged")

// evidence is what claims are judged on.
type evidence struct {
	manifest Manifest
	rows     []Row
}

// all returns a strategy's rows under the mixes. Its error says why one of them must not be judged.
func (e evidence) all(strategy string, mixes ...Mix) ([]Pooled, error) {
	if e.manifest.Backend == "embedded" {
		return nil, errEmbedded
	}
	pooled := make([]Pooled, 0, len(mixes))
	for _, m := range mixes {
		p, found := Pool(e.rows, strategy, m.Sellers, m.Buyers)
		if !found {
			return nil, fmt.Errorf("not judged: %s was not measured", p.Name())
		}
		if p.Problem != "" {
			return nil, fmt.Errorf("not judged: %s %s", p.Name(), p.Problem)
		}
		pooled = append(pooled, p)
	}
	return pooled, nil
}

// buying is all, for claims about each purchase: rows that bought nothing say nothing about them.
func (e evidence) buying(strategy string, mixes ...Mix) ([]Pooled, error) {
	pooled, err := e.all(strategy, mixes...)
	if err != nil {
		return nil, err
	}
	for _, p := range pooled {
		if p.Bought == 0 {
			return nil, fmt.Errorf("not judged: %s bought nothing", p.Name())
		}
	}
	return pooled, nil
}

// byMix spells one value a row: "2.96 at 1x1, 268 at 5x5". The unit follows the first.
func byMix(rows []Pooled, unit string, values ...float64) string {
	parts := make([]string, 0, len(rows))
	for i, p := range rows {
		parts = append(parts, fmt.Sprintf("%s%s at %s", short(values[i]), unit, Mix{p.Sellers, p.Buyers}))
		unit = ""
	}
	return strings.Join(parts, ", ")
}

// short prints a number with three digits or so, never as an exponent: 0, 0.44, 12.3, 3717.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.01:
		return "less than 0.01"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
