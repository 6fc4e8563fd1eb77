package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

// read takes the lock as a reader.
func (f *floor) read(l lock.Locker, name string) lock.Lease {
	f.Helper()
	s, ok := l.(lock.SharedLocker)
	if !ok {
		f.Fatalf("it promises to be shared, and it (%T) is not a SharedLocker", l)
	}
	ctx, cancel := context.WithTimeout(f.ctx, f.patience())
	defer cancel()
	lease, err := s.AcquireShared(ctx, name)
	if err != nil {
		f.Fatalf("a reader acquiring a lock that no writer has: %v", err)
	}
	return lease
}

func readersShareWritersDoNot(f *floor) {
	name, writer := f.name(), f.worker()
	one, other := f.read(f.worker(), name), f.read(f.worker(), name)
	f.held(writer, name, "while two readers hold it")
	f.release(one)
	f.held(writer, name, "while a reader holds it")
	f.release(other)
	lease := f.try(writer, name, "when the readers have gone")
	f.held(f.worker(), name, "while a writer holds it")
	f.keptOut(name)
	reader := f.waiter(f.ctx, name, Worker{}, shared)
	f.release(lease)
	f.ends(reader, f.patience(), "a reader after the writer's release")
	if reader.err != nil {
		f.Errorf("a reader after the writer's release: %v", reader.err)
	}
}

// keptOut checks that a reader does not get in while a writer holds the lock.
func (f *floor) keptOut(name string) {
	f.Helper()
	want, w, ctx := lock.ErrTimeout, Worker{Timeout: 30 * time.Millisecond}, f.ctx
	if f.subject.Untimed {
		bounded, cancel := context.WithTimeout(f.ctx, w.Timeout)
		defer cancel()
		want, ctx = context.DeadlineExceeded, bounded
	}
	c := f.waiter(ctx, name, w, shared)
	f.ends(c, f.patience(), "a reader with a time-out of 30ms")
	if !errors.Is(c.err, want) {
		f.Errorf("a reader while a writer holds the lock: %v, want %v", c.err, want)
	}
}

// handovers is how often readers hand the lock to each other before the writer counts as starved, if that took a
// second.
const handovers = 100

// waitingWriterIsServed keeps the lock with readers: each takes it before the last one has left, unless it is kept out
// in favour of the writer.
func waitingWriterIsServed(f *floor) {
	brief := Worker{Timeout: 100 * time.Millisecond}
	name, crew := f.name(), [2]lock.Locker{f.open(brief), f.open(brief)}
	held := f.read(f.worker(), name)
	writer := f.waiter(f.ctx, name, Worker{}, exclusively)
	start := time.Now()
	for i := 0; i < handovers || time.Since(start) < time.Second; i++ {
		ctx, cancel := context.WithTimeout(f.ctx, brief.Timeout)
		next, err := shared(crew[i%len(crew)], ctx, name)
		cancel()
		f.release(held)
		if err != nil { // kept out
			f.ends(writer, f.patience(), "a writer when the readers have gone")
			if writer.err != nil {
				f.Errorf("a writer when the readers have gone: %v", writer.err)
			}
			return
		}
		held = next
	}
	f.release(held)
	f.Errorf("a writer waited while readers handed the lock to each other %d times", handovers)
}
