package fault

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// Cells is how many scenarios are played at the same time: most of their time is waiting for leases.
const Cells = 6

// Run plays each scenario with each subject and returns what came of it, scenario by scenario, in the order given. told
// hears of each finding as it is made, one at a time; it may be nil. When the environment fails it returns what was
// found until then, and the error.
func (l *Lab) Run(ctx context.Context, scenarios []Scenario, subjects []Subject, told func(Finding)) ([]Finding, error) {
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	findings := make([]Finding, len(scenarios)*len(subjects))
	errs := make([]error, len(findings))
	cells := make(chan int)
	var mu sync.Mutex
	var playing sync.WaitGroup
	for range Cells {
		playing.Go(func() {
			for i := range cells {
				f, err := l.Play(ctx, scenarios[i/len(subjects)], subjects[i%len(subjects)])
				if err != nil {
					errs[i] = err
					cancel()
					continue
				}
				mu.Lock()
				findings[i] = f
				if told != nil {
					told(f)
				}
				mu.Unlock()
			}
		})
	}
	for i := range findings {
		select {
		case cells <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(cells)
	playing.Wait()
	found := findings[:0]
	for _, f := range findings {
		if f.Scenario != "" {
			found = append(found, f)
		}
	}
	return found, cmp.Or(firstOf(errs), context.Cause(asked))
}

// firstOf is the first failure: those after it come from being cancelled.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}
