package result_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
)

// TestUntoldIsNotStored: what marketsim cannot see of the programs of --exec is absent,
// and what they told is there.
func TestUntoldIsNotStored(t *testing.T) {
	row := result.Row{Bought: 7, ListRetries: 3, Elsewhere: true}
	text := string(testkit.Must(json.Marshal(row))(t))

	for field, stored := range map[string]bool{
		"bought": true, "list_retries": true, "retries": false, "polls": false,
		"list_polls": false, "lock_wait_ms": false, "leases_lost": false, "failed_releases": false,
	} {
		if strings.Contains(text, `"`+field+`"`) != stored {
			t.Errorf("%s is stored: %v, want %v, in %s", field, !stored, stored, text)
		}
	}

	row.Elsewhere = false
	if text := string(testkit.Must(json.Marshal(row))(t)); !strings.Contains(text, `"polls":0`) {
		t.Errorf("the 0 of a row of ours is not stored: %s", text)
	}
}

// keysOf are the fields that are stored of a row, in alphabetical order.
func keysOf(t *testing.T, row result.Row) []string {
	var fields map[string]any
	testkit.Succeeds(t, json.Unmarshal(testkit.Must(json.Marshal(row))(t), &fields))
	return slices.Sorted(maps.Keys(fields))
}

// TestEachFieldIsSeenOrLeftOut fails for a new field of Row until somebody has said
// whether it is known of the programs of --exec: what marketsim does not see must not be
// stored as 0. It is then named here, or in Row.MarshalJSON.
func TestEachFieldIsSeenOrLeftOut(t *testing.T) {
	seen := strings.Fields("audit bought elsewhere given_up_ms list_ms listed mix per_buyer " +
		"refused seconds status strategy trial unknown wait_ms")
	if stored := keysOf(t, result.Row{Elsewhere: true}); !slices.Equal(stored, seen) {
		t.Errorf("stored of a row of programs in which all is 0: %v, want %v", stored, seen)
	}

	var row result.Row
	for _, value := range reflect.ValueOf(&row).Elem().Fields() {
		switch value.Kind() {
		case reflect.Int, reflect.Int64:
			value.SetInt(1)
		case reflect.Float64:
			value.SetFloat(1)
		case reflect.Pointer:
			value.Set(reflect.New(value.Type().Elem()))
		}
	}
	for _, l := range []*result.Latency{
		&row.WaitMS, &row.ListMS, &row.ServiceMS, &row.GivenUpMS, &row.LockWaitMS,
	} {
		l.Count = 1
	}
	all := keysOf(t, row)
	row.Elsewhere = true
	leftOut := slices.DeleteFunc(all, func(key string) bool {
		return slices.Contains(keysOf(t, row), key)
	})
	want := strings.Fields("background commands failed_releases leases_lost list_polls " +
		"lock_wait_ms market polls")
	if !slices.Equal(leftOut, want) {
		t.Errorf("left out of a row of programs in which nothing is 0: %v, want %v", leftOut, want)
	}
}

// TestNoMetricOfWhatIsUntold: what is not stored of a row of programs is no number, and
// not 0.
func TestNoMetricOfWhatIsUntold(t *testing.T) {
	var zero []string
	for _, m := range runs.Metrics() {
		if m.Of(&result.Row{Elsewhere: true}) == 0 {
			zero = append(zero, m.Name)
		}
	}
	want := strings.Fields("seconds listed bought wait_ms_count gone contended refused unknown " +
		"cut list_ms_count given_up_ms_count lock_wait_ms_count service_ms_count")
	if !slices.Equal(zero, want) {
		t.Errorf("metrics that are 0 in a row of programs: %v, want %v", zero, want)
	}
}
