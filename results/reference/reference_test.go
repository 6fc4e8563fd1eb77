package reference

import (
	"encoding/csv"
	"fmt"
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
	rows, err := parse(published)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(records)-1 {
		t.Fatalf("%d rows; the file has %d", len(rows), len(records)-1)
	}
	for i, r := range rows {
		got := []string{r.Source, r.Table, strconv.Itoa(r.Seconds), strconv.Itoa(r.Listers), strconv.Itoa(r.Buyers),
			r.Locking}
		for _, v := range []Value{r.Listed, r.Bought, r.Retries, r.WaitMS} {
			text := strconv.FormatFloat(v.Number, 'f', -1, 64)
			if v.Below {
				text = "<" + text
			}
			got = append(got, text)
		}
		if !slices.Equal(got, records[i+1][:len(got)]) {
			t.Errorf("row %d:\n got %q\nwant %q", i, got, records[i+1])
		}
		if r.Source == Book && r.Seconds != BookSeconds {
			t.Errorf("row %d: %d seconds, want %d", i, r.Seconds, BookSeconds)
		}
	}
}

func names(rows []Row) string {
	var s []string
	for _, r := range rows {
		s = append(s, fmt.Sprintf("%s %dx%d", r.Locking, r.Listers, r.Buyers))
	}
	return strings.Join(s, ", ")
}

func TestTable(t *testing.T) {
	for table, want := range map[string]string{
		"6-1": "watch 1x1, watch 5x1, watch 5x5",
		"6-2": "watch 1x1, coarse 1x1, watch 5x1, coarse 5x1, watch 5x5, coarse 5x5",
		"6-3": "watch 1x1, coarse 1x1, fine 1x1, watch 5x1, coarse 5x1, fine 5x1, watch 5x5, coarse 5x5, fine 5x5",
	} {
		rows, err := Table(table)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(rows); got != want {
			t.Errorf("Table(%s):\n got %s\nwant %s", table, got, want)
		}
	}
	_, err := Table("6-4")
	if err == nil || !strings.Contains(err.Error(), "6-1, 6-2, 6-3") {
		t.Errorf("Table(6-4): %v; want an error with the known tables", err)
	}
}

func TestParseRefuses(t *testing.T) {
	const good = "s,-,60,1,1,watch,1,<2,3,4,"
	for field, bad := range map[int]string{2: "sixty", 3: "0", 4: "-1", 6: "", 7: "<", 8: "1.5", 9: ">3"} {
		rec := strings.Split(good, ",")
		rec[field] = bad
		if _, err := parse(columns + "\n" + strings.Join(rec, ",") + "\n"); err == nil {
			t.Errorf("field %d = %q was accepted", field, bad)
		}
	}
	for _, text := range []string{"", "source,table\n", columns + "\n" + "a,b\n", columns + "\n\"", fmt.Sprintln(good)} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	if rows, err := parse(columns + "\n" + good + "\n"); err != nil || len(rows) != 1 {
		t.Errorf("a good row: %v, %v", rows, err)
	}
}
