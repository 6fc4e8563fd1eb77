package view_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
)

// TestInABrowser opens pages in one Chromium, one after the other.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	for name, test := range map[string]func(*testing.T, context.Context){
		"everything":  testEverything,
		"wide tables": testWideTables,
		"map":         testMap,
		"filters":     testFilters,
	} {
		t.Run(name, func(t *testing.T) { test(t, chromium) })
	}
}

// browser starts a headless Chromium for the length of the test. The test needs
// "chromium", see [testkit.Require].
func browser(t *testing.T) context.Context {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}

	if program == "" {
		testkit.Require(t, "chromium",
			"there is no chromium in PATH to open a page with (apt-get install chromium installs it)")
	}

	options := chromedp.WithAllocatorOptions(chromedp.ExecPath(program), chromedp.NoSandbox)
	ctx, cancel := chromedp.NewContext(context.Background(), options)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return ctx
}

// A tab is a page that is open.
type tab struct {
	t    *testing.T
	ctx  context.Context
	path string

	mu sync.Mutex
	// Of the browser: errors, warnings and exceptions, and what it was made to load.
	complaints []string
}

// openPage opens a page from a file.
func openPage(t *testing.T, browser context.Context, text string) *tab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	testkit.Succeeds(t, os.WriteFile(path, []byte(text), 0o666))
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, path: path}
	testkit.Succeeds(t, chromedp.Listen(ctx, p.hears))
	testkit.Succeeds(t, chromedp.Do(ctx, chromedp.Navigate("file://"+path)))
	return p
}

// on shows the page on a screen of some width, in a color scheme.
func (p *tab) on(width int64, scheme string) {
	p.t.Helper()

	inScheme := func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media:    "screen",
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}

	err := chromedp.Do(p.ctx, chromedp.EmulateViewport(width, 900), chromedp.Func(inScheme))
	if err != nil {
		p.t.Fatal(err)
	}

	// until it is drawn
	const frames = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
	if _, err := chromedp.Run(
		p.ctx, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise),
	); err != nil {
		p.t.Fatal(err)
	}
}

// hears collects what the browser complains of.
func (p *tab) hears(event any) {
	said := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		said = fmt.Sprintf("console: %s", e.Type)
	case *log.EventEntryAdded:
		said = "log: " + e.Entry.Text
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; url != "file://"+p.path && !strings.HasPrefix(url, "data:") {
			said = "network: " + url
		}
	}

	if said != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.complaints = append(p.complaints, said)
	}
}

// ask evaluates an expression in the page.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	answer, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return answer
}

// looks are what is wrong with a page at first sight, a text for each.
const looks = `(() => {
	const wrong = []
	if (document.documentElement.scrollWidth > innerWidth) {
		wrong.push('overflow: it is ' + document.documentElement.scrollWidth + ' pixels wide on a screen of ' + innerWidth)
	}
	for (const svg of document.querySelectorAll('svg')) {
		const box = svg.getBoundingClientRect(), drawn = svg.querySelectorAll('path, circle, rect, polyline, polygon, line')
		const full = Array.from(drawn).some(mark => mark.getBBox().width > 0 || mark.getBBox().height > 0)
		if (box.width < 100 || box.height < 50 || !full || svg.querySelectorAll('text').length === 0) {
			wrong.push('picture: ' + svg.textContent.slice(0, 40) + ' is ' + box.width + ' x ' + box.height)
		}
	}
	for (const text of document.querySelectorAll('svg text')) {
		const box = text.getBBox(), all = text.ownerSVGElement.viewBox.baseVal
		if (box.x < 0 || box.y < 0 || box.x + box.width > all.width || box.y + box.height > all.height) {
			wrong.push('cut: ' + text.textContent)
		}
	}
	for (const link of document.querySelectorAll('a')) {
		if (!document.getElementById(link.hash.slice(1))) {
			wrong.push('link: ' + link.textContent + ' leads nowhere')
		}
	}
	return wrong
})()`

// wrong is everything that is wrong with the page at first sight, and what the browser
// complained of since the last time.
func (p *tab) wrong() []string {
	found := ask[[]string](p, looks)
	p.mu.Lock()
	defer p.mu.Unlock()
	found = append(found, p.complaints...)
	p.complaints = nil
	return found
}

// cutTables are the tables that are wider than the page has room for, and have
// to be scrolled.
const cutTables = `Array.from(document.querySelectorAll('.scroll:not(.map)')).
	filter(part => part.scrollWidth > part.clientWidth).
	map(part => part.closest('article').querySelector('h1').textContent + ': ' + part.ariaLabel)`

// testWideTables: on 1,280 pixels no column of a stored run's table is cut, and wider
// screens are used to their edge. The control is a telephone.
func testWideTables(t *testing.T, chromium context.Context) {
	files := testkit.Must(filepath.Glob("../../results/*/run.json"))(t)
	if len(files) < 10 {
		t.Fatalf("only %d runs are stored", len(files))
	}
	var all []*view.Doc
	for _, file := range files {
		content := testkit.Must(os.ReadFile(file))(t)
		all = append(all, view.Run(testkit.Must(runs.Read(bytes.NewReader(content)))(t)))
	}
	var page bytes.Buffer
	testkit.Succeeds(t, view.HTML(&page, all...))

	p := openPage(t, chromium, page.String())
	for _, width := range []int64{1280, 1920} {
		p.on(width, "light")
		if cut := ask[[]string](p, cutTables); len(cut) > 0 {
			t.Errorf("%d pixels: these tables are cut: %q", width, cut)
		}
		used := ask[float64](p, `document.querySelector('.figures').getBoundingClientRect().right`)
		if used < 0.95*float64(width) {
			t.Errorf("%d pixels: figures end at %v", width, used)
		}
	}
	p.on(390, "light")
	if len(ask[[]string](p, cutTables)) == 0 {
		t.Error("no table has to be scrolled on a telephone")
	}
}

// testEverything opens a page of everything on a telephone's and a laptop's screen, in
// both color schemes: every table and picture is there, nothing is wider than the
// screen, nothing is loaded, and the browser complains of nothing. The control is a page
// of which each of this is wrong.
func testEverything(t *testing.T, chromium context.Context) {
	parts := append(docsInOrder(), view.Run(hostile()))

	// Counted in the documents: a part that was not drawn is missing on the page alone.
	tables, pictures := 0, 0
	for _, d := range parts {
		for _, block := range d.Blocks {
			if block.Table != nil {
				tables++
			}
			if block.Figure != nil {
				pictures++
			}
		}
	}

	var page bytes.Buffer
	testkit.Succeeds(t, view.HTML(&page, parts...))
	p := openPage(t, chromium, page.String())
	for _, width := range []int64{390, 1440} {
		for _, scheme := range []string{"light", "dark"} {
			p.on(width, scheme)
			for _, complaint := range p.wrong() {
				t.Errorf("%d pixels, %s: %s", width, scheme, complaint)
			}

			counted := ask[[]int](p,
				`['table', 'figure svg'].map(kind => document.querySelectorAll(kind).length)`)
			if !slices.Equal(counted, []int{tables, pictures}) {
				t.Errorf("%d tables and pictures, want %d and %d", counted, tables, pictures)
			}

			paper := ask[string](p, `getComputedStyle(document.body).backgroundColor`)
			if dark := paper != "rgb(255, 255, 255)"; dark != (scheme == "dark") {
				t.Errorf("the paper is %s where a reader prefers %s", paper, scheme)
			}
		}
	}

	bad := openPage(t, chromium, `<!doctype html><meta name="viewport" content="width=device-width">
		<svg></svg><a href="#x">to x</a><svg viewBox="0 0 20 20"><text x="1" y="15">10,000 ms</text></svg>
		<div style="width: 3000px">wide</div><img src="nowhere.png"><script>console.error("oh"); nothing.at.all</script>`)
	found := strings.Join(bad.wrong(), "\n")
	for _, want := range []string{
		"overflow: it is 3", "picture: ", "cut: 10,000 ms", "link: ",
		"network: file:", "exception: ", "console: ", "log: ",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("nobody complains of %q:\n%s", want, found)
		}
	}
}

// mapped is what is seen of a map that was scrolled to its end: its signs, and how many
// colors they have, whether head and first column are in sight, how wide that column is,
// where the head leads, and how many other links are in sight.
const mapped = `(() => {
	const map = document.querySelector('.map'), signs = {}
	for (const cell of map.querySelectorAll('td')) {
		signs[cell.className + ' ' + cell.textContent] = getComputedStyle(cell).backgroundColor
	}
	map.scrollTo(map.scrollWidth, map.scrollHeight)
	const [all, head, first] = [map, ...map.querySelectorAll('thead th:first-child, tbody tr:last-child th')].
		map(part => part.getBoundingClientRect())
	return {
		signs: Object.keys(signs).sort().join(), colors: new Set(Object.values(signs)).size, width: Math.round(first.width),
		inSight: map.scrollLeft * map.scrollTop > 0 && Math.abs(head.top - all.top) < 2 && first.left - all.left < 2,
		links: Array.from(map.querySelectorAll('thead a'), a => document.getElementById(a.hash.slice(1)).textContent),
		walls: Array.from(document.querySelectorAll('nav a')).filter(link => link.checkVisibility()).length,
	}
})()`

// testMap: what was found differs by sign and by color. Head and first column stay in
// sight, and the head leads to each scenario: there is no wall of links.
func testMap(t *testing.T, chromium context.Context) {
	f := faults()
	for i := range 60 { // so that it has to be scrolled
		name := fmt.Sprintf("more-%d:with=parameters", i)
		f.Scenarios = append(f.Scenarios, findings.ScenarioInfo{Name: name, Title: "It takes more"})
		f.Subjects = append(f.Subjects, name)
	}

	var page bytes.Buffer
	testkit.Succeeds(t, view.HTML(&page, view.Faults(f)))
	p := openPage(t, chromium, page.String())

	for _, width := range []int64{390, 1440} {
		p.on(width, "light")
		seen := ask[struct {
			Signs                string
			InSight              bool
			Colors, Width, Walls int
			Links                []string
		}](p, mapped)

		// The head leads to 63 scenarios: the three of faults, and the 60 from above.
		if seen.Signs != " –,awhile ~,bad ×,broken !,good ✓,never ∞" ||
			seen.Colors != 6 || !seen.InSight ||
			seen.Width > int(width)/2 || seen.Walls > 0 || len(seen.Links) != 63 ||
			seen.Links[1] != "2. pause: A worker is paused for longer than its lease" {
			t.Errorf("%d pixels: %+v", width, seen)
		}
	}
}
