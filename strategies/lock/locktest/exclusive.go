package locktest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

const (
	contenders = 8
	rounds     = 20 // of each contender
)

// workersExcludeEachOther lets workers add to a counter by reading and writing it. The counter is atomic only so that the
// race detector, which does not see the lock, is content.
func workersExcludeEachOther(f *floor) {
	name := f.name()
	var inside, overlaps, counter atomic.Int64
	var crew sync.WaitGroup
	for range contenders {
		l := f.worker()
		crew.Go(func() {
			for range rounds {
				lease, err := l.Acquire(f.ctx, name)
				if err != nil {
					f.Errorf("acquiring a contended lock: %v", err)
					return
				}
				if inside.Add(1) > 1 {
					overlaps.Add(1)
				}
				n := counter.Load()
				runtime.Gosched()
				counter.Store(n + 1)
				inside.Add(-1)
				if err := lease.Release(f.ctx); err != nil {
					f.Errorf("releasing a contended lock: %v", err)
				}
			}
		})
	}
	crew.Wait()
	if n := overlaps.Load(); n > 0 {
		f.Errorf("a worker found another inside %d times", n)
	}
	if n := counter.Load(); n != contenders*rounds {
		f.Errorf("%d workers added 1 %d times each, and the sum is %d", contenders, rounds, n)
	}
}

// lookersExcludeEachOther holds a worker after its look at a free lock, and after the first half of taking it, while
// another one comes.
func lookersExcludeEachOther(f *floor) {
	for _, at := range []step.Name{step.Looked, step.Half} {
		name, gate, second := f.name(), step.Hold(at), f.worker()
		first := f.open(Worker{Steps: gate.Observe})
		c, held := f.untilHeldAt(gate, func(ctx context.Context) (lock.Lease, error) { return first.Try(ctx, name) })
		if !held {
			continue
		}
		lease, err := second.Try(f.ctx, name)
		gate.Open()
		f.ends(c, f.patience(), "a worker that was held at "+string(at))
		if err == nil && c.err == nil {
			f.Errorf("a worker held at %s and one who came meanwhile both have the lock", at)
		}
		if err == nil {
			_ = lease.Release(f.ctx)
		}
	}
}
