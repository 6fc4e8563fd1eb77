package history

import (
	"runtime"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
)

// What a check of so many operations may take.
const (
	manyOperations = 200_000
	checkTime      = 60 * time.Second
	checkMemory    = 2 << 30
)

// TestManyOperations checks, reading included, large histories of each shape within the time and memory promised.
func TestManyOperations(t *testing.T) {
	if testing.Short() || testkit.Raced {
		t.Skip("it takes some seconds, and is no measure under the race detector")
	}
	for name, g := range map[string]generator{
		"many items": {draw: random(1), accounts: 10, funds: 1e12, items: 250, spread: 5, lost: 1},
		"one item":   {draw: random(2), accounts: 10, funds: 1e12, items: 1, spread: 3, relist: true},
		"poor":       {draw: random(3), accounts: 3, funds: 300, items: 50, spread: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, g.history(manyOperations))
			start := time.Now()
			h, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			read := time.Since(start)
			v := Check(t.Context(), h)
			took := time.Since(start)
			var after runtime.MemStats
			runtime.ReadMemStats(&after)
			t.Logf("read in %s, judged in %s, heap %d MiB", read.Round(time.Millisecond),
				(took - read).Round(time.Millisecond), after.HeapSys>>20)
			if v.Answer != Linearizable {
				t.Errorf("a legal history is %+v", v)
			}
			if took > checkTime || after.HeapSys > checkMemory {
				t.Errorf("it took %s and %d MiB; at most %s and %d MiB are allowed", took, after.HeapSys>>20, checkTime,
					checkMemory>>20)
			}
		})
	}
}
