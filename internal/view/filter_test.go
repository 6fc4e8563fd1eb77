package view_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/verify"
)

// manySearches are searches of schemes, each in three programs, with one harm each.
func manySearches(schemes int) *findings.Explorations {
	r := &findings.Explorations{Schema: findings.ExplorationsSchema, Version: "v1"}
	nothing := findings.Searched{Preemptions: 1, Schedules: 9}
	for i := range schemes {
		scheme := fmt.Sprintf("lock-%d</select><script>", i)
		r.Searches = append(r.Searches,
			findings.Exploration{Scheme: scheme, Program: "one-item", Searched: nothing},
			findings.Exploration{Scheme: scheme, Program: "one-account", Searched: nothing},
			findings.Exploration{Scheme: scheme, Program: "listing",
				Searched:     findings.Searched{Schedules: 9},
				ShortestHarm: findings.ShortestHarm{Harm: verify.SoldTwice, Token: "x4"}})
	}
	return r
}

func page(t *testing.T, r *findings.Explorations) string {
	t.Helper()
	var out bytes.Buffer
	testkit.Succeeds(t, view.HTML(&out, view.Explored(r)))
	return out.String()
}

// A table that is longer than a screen can be filtered, without a script; names that come
// from a result stay texts.
func TestFilters(t *testing.T) {
	long := page(t, manySearches(20))
	for _, want := range []string{
		`<option value="">all 20</option><option value="0">lock-0&lt;/select&gt;&lt;script&gt;</option>`,
		`<option value="">all 3</option><option value="0">one-item</option>`,
		`<option value="">all 2</option><option value="0">nothing</option><option value="1">sold twice</option>`,
		`#r0-1-rows:has(.f2 [value="1"]:checked) tbody tr:not(.f2-1) { display: none; }`,
		`<tr class=" f0-19 f1-2 f2-1">`,
	} {
		if !strings.Contains(long, want) {
			t.Errorf("the page does not hold %s", want)
		}
	}

	if script := regexp.MustCompile(`(?i)<script|\son\w+=`).FindString(long); script != "" {
		t.Errorf("the page holds %q", script)
	}

	if short := page(t, manySearches(2)); strings.Contains(short, "<form") {
		t.Error("a table of six rows has filters")
	}
}

// filteredRows is what is shown of the table, and what its count says.
const filteredRows = `(() => {
	const rows = Array.from(document.querySelectorAll('tbody tr')).filter(row => row.checkVisibility())
	return rows.length + ' rows, ' + new Set(rows.map(row => row.children[0].textContent)).size + ' schemes'
})()`

// testFilters: a reader chooses with the keyboard alone; what is printed is whole.
func testFilters(t *testing.T, chromium context.Context) {
	p := openPage(t, chromium, page(t, manySearches(20)))

	key := func(field, keys string) {
		t.Helper()
		sel := fmt.Sprintf(".filters %s", field)
		testkit.Succeeds(t, chromedp.Do(p.ctx, chromedp.Focus(sel), chromedp.KeyEvent(keys)))
	}

	shows := func(want string) {
		t.Helper()
		if got := ask[string](p, filteredRows); got != want {
			t.Errorf("%s are shown, want %s", got, want)
		}
	}

	for _, width := range []int64{390, 1280} {
		p.on(width, "light")
		shows("60 rows, 20 schemes")
		key(".f2", "sold")
		shows("20 rows, 20 schemes")
		key(".f0", "lock-7")
		shows("1 rows, 1 schemes")
		// The harm of lock-7 is in its program listing, so that no row of one-item is left.
		key(".f1", "one-i")
		shows("0 rows, 0 schemes")

		on := func(media string) {
			t.Helper()
			testkit.Succeeds(t, chromedp.Do(p.ctx, chromedp.Func(
				func(ctx context.Context, _ *chromedp.Target) error {
					_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
						emulation.SetEmulatedMediaParams{Media: media})
					return err
				})))
		}
		on("print")
		shows("60 rows, 20 schemes")
		on("screen")
		shows("0 rows, 0 schemes")

		key("button", "\r")
		shows("60 rows, 20 schemes")

		for _, complaint := range p.wrong() {
			t.Errorf("%d pixels: %s", width, complaint)
		}
	}
}
