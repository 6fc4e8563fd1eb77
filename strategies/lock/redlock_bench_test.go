package lock_test

import "testing"

func BenchmarkRedlockAcquireRelease(b *testing.B) {
	q := newQuorum(b)
	l := q.open(q.env())
	for b.Loop() {
		if err := q.acquire(l).Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
