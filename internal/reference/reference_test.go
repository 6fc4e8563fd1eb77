package reference

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPublishedMatchesFile compares every parsed cell with the file's text.
func TestPublishedMatchesFile(t *testing.T) {
	f, err := os.Open("published.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}

	rows := all()
	if len(rows) != len(records)-1 {
		t.Fatalf("%d rows; the file has %d", len(rows), len(records)-1)
	}

	const columns = "source,table,seconds,listers,buyers,locking,listed,bought,retries,wait_ms,confirmed"
	if got := strings.Join(records[0], ","); got != columns {
		t.Errorf("the columns are %s, want %s", got, columns)
	}

	for i, r := range rows {
		table := records[i+1][1] // which nobody asks for
		got := []string{
			r.Source, table, strconv.Itoa(r.Seconds),
			strconv.Itoa(r.Listers), strconv.Itoa(r.Buyers), r.Locking,
		}
		for _, v := range []PrintedNumber{r.Listed, r.Bought, r.Retries, r.WaitMS} {
			text := strconv.FormatFloat(v.Number, 'f', -1, 64)
			if v.Below {
				text = "<" + text
			}
			got = append(got, text)
		}

		if !slices.Equal(got, records[i+1][:len(got)]) {
			t.Errorf("row %d:\n got %q\nwant %q", i, got, records[i+1])
		}

		if r.Source == Book && r.Seconds != BookSeconds || min(r.Seconds, r.Listers, r.Buyers) < 1 {
			t.Errorf("row %d: %d seconds, want %d; %dx%d", i, r.Seconds, BookSeconds, r.Listers, r.Buyers)
		}
	}
}

func names(rows []PublishedRow) string {
	var s []string
	for _, r := range rows {
		s = append(s, fmt.Sprintf("%s %dx%d", r.Locking, r.Listers, r.Buyers))
	}
	return strings.Join(s, ", ")
}

func TestTable(t *testing.T) {
	const want = "watch 1x1, coarse 1x1, fine 1x1, watch 5x1, coarse 5x1, fine 5x1, watch 5x5, coarse 5x5, fine 5x5"
	if got := names(RowsByMix(Book)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestRowsOfAPort: it printed four of the nine rows, and the strategies lock as it does.
func TestRowsOfAPort(t *testing.T) {
	var printed []string
	rows := RowsOf(Jedis)
	for _, r := range rows {
		if !math.IsNaN(r.Bought.Number) {
			printed = append(printed, fmt.Sprintf("%s %dx%d: %.0f",
				r.Strategy, r.Listers, r.Buyers, r.Bought.Number))
		}
	}

	want := []string{
		"watch 1x1: 44232", "watch 5x1: 2012", "watch 5x5: 352",
		"coarse" + jedisScheme + " 1x1: 30306",
	}
	if len(rows) != 9 || !slices.Equal(printed, want) {
		t.Errorf("of %d rows it has printed %q, want %q", len(rows), printed, want)
	}

	if last := rows[8].Strategy; last != "fine"+jedisScheme {
		t.Errorf("the last row is %s", last)
	}
}
