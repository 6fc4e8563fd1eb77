package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/view"
)

// A liveRow is the row under way, as somebody sees it who waits for it.
type liveRow struct {
	number, all int // which it is of all rows of the run
	name        string
	duration    time.Duration // measured time
	rest        time.Duration // what the rows after it take

	mu    sync.Mutex
	soFar result.Row
}

// update notes what was measured so far.
func (l *liveRow) update(soFar result.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.soFar = soFar
}

// line says in so many columns how the row goes on. What takes too much is left out: first
// how long all rows take, then the end of the name.
func (l *liveRow) line(now time.Time, columns int) string {
	l.mu.Lock()
	soFar := l.soFar
	l.mu.Unlock()

	// Began is when the measured time begins. It is known from the start of the load on, and lies
	// ahead during the warm-up.
	left := soFar.Began.Add(l.duration).Sub(now)
	doing := left.Round(time.Second).String() + " left"
	switch {
	case soFar.Began.IsZero():
		doing, left = "its market is prepared", 0
	case now.Before(soFar.Began):
		doing = "warm-up, " + doing
	case left <= 0:
		doing, left = "its end and its audit", 0
	}

	figures := ""
	if len(soFar.Course) > 0 {
		p99 := runs.MetricByName("wait_ms_p99")
		figures = fmt.Sprintf(", %s purchases/s, p99 %s", view.Number(soFar.PerSecond(), runs.PerSecond),
			view.Number(p99.Of(&soFar), p99.Unit))
	}
	inAll := ""
	if l.rest > 0 {
		inAll = fmt.Sprintf(" (all: %s)", (left + l.rest).Round(time.Second))
	}

	name := fmt.Sprintf("%d/%d %s", l.number, l.all, l.name)
	if runewidth.StringWidth(name+": "+doing+inAll+figures) > columns {
		inAll = ""
	}
	rest := ": " + doing + inAll + figures
	return runewidth.Truncate(name, max(0, columns-runewidth.StringWidth(rest)), "…") + rest
}

// follows reports whether somebody sees a row that is under way: on a terminal whose last
// line can be replaced.
func (p *program) follows() bool {
	w, _ := p.replaceable()
	return w != nil && !p.quiet
}

// follow shows a row every second, if somebody sees it, until stop is called.
func (p *program) follow(l *liveRow) (stop func()) {
	if !p.follows() {
		return func() {}
	}

	over := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		seconds := time.NewTicker(time.Second)
		defer seconds.Stop()
		for {
			_, columns := p.replaceable() // it may be another by now
			p.progress("%s", l.line(time.Now(), columns-1))
			select {
			case <-seconds.C:
			case <-over:
				return
			}
		}
	})
	return func() {
		close(over)
		showing.Wait() // a line that came later would stand below the row's result
	}
}

// restAfter is about how long the rows take that follow the one under way.
func (p *plan) restAfter(done, all int, began time.Time) time.Duration {
	each := p.options.Warmup + p.options.Duration
	if done > 0 {
		each = time.Since(began) / time.Duration(done) // with stocking and auditing
	}
	return time.Duration(all-done-1) * each
}
