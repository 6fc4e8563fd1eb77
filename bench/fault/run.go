package fault

import (
	"context"
	"slices"
	"sync"
)

// Cells is how many scenarios are played at the same time: most of their time is waiting for leases.
const Cells = 6

// A cell is a scenario with a subject.
type cell struct {
	scenario Scenario
	subject  Subject
}

// Run plays each scenario with each subject and returns what came of it, scenario by scenario, in the order given. told
// hears of each finding as it is made, one at a time; it may be nil. When the environment fails or the context ends it
// returns what was found until then, and why there is no more.
func (l *Lab) Run(ctx context.Context, scenarios []Scenario, subjects []Subject, told func(Finding)) ([]Finding, error) {
	var cells []cell
	for _, sc := range scenarios {
		for _, s := range subjects {
			cells = append(cells, cell{sc, s})
		}
	}
	return l.run(ctx, cells, told)
}

func (l *Lab) run(asked context.Context, cells []cell, told func(Finding)) ([]Finding, error) {
	ctx, fail := context.WithCancelCause(asked)
	defer fail(nil)
	findings := make([]Finding, len(cells))
	next := make(chan int)
	var telling sync.Mutex
	var playing sync.WaitGroup
	for range Cells {
		playing.Go(func() {
			for i := range next {
				f, err := l.Play(ctx, cells[i].scenario, cells[i].subject)
				if err != nil {
					fail(err) // the first one counts: those after it come from being cancelled
					continue
				}
				findings[i] = f
				if told != nil {
					telling.Lock()
					told(f)
					telling.Unlock()
				}
			}
		})
	}
	for i := 0; i < len(cells) && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	playing.Wait()
	why := context.Cause(ctx)
	return slices.DeleteFunc(findings, func(f Finding) bool { return f.Scenario == "" }), why
}
