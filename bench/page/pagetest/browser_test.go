package pagetest_test

import (
	"context"
	"flag"
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
	"github.com/chromedp/chromedp/kb"

	"github.com/marketsim/marketsim/bench/page/pagetest"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
)

// stored is the folder with what is stored.
const stored = "../../../results"

var screenshots = flag.String("screenshots", "", "folder for pictures of the pages that the tests open, to look at")

// A screen is what a reader looks at a page with.
type screen struct {
	name          string
	width, height int64
	scheme        string
}

// screens are a telephone's and a laptop's, in both color schemes.
func screens() (all []screen) {
	for _, scheme := range []string{"light", "dark"} {
		all = append(all, screen{"390-" + scheme, 390, 844, scheme}, screen{"1440-" + scheme, 1440, 900, scheme})
	}
	return all
}

// browser starts a headless Chromium for the length of the test. The test needs "chromium", see [testkit.Require].
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
		testkit.Require(t, "chromium", "there is no chromium in PATH to open a page with (apt-get install chromium installs it)")
	}
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(chromedp.ExecPath(program), chromedp.NoSandbox))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return ctx
}

// A tab is a page that is open on a screen.
type tab struct {
	t    *testing.T
	ctx  context.Context
	path string

	mu         sync.Mutex
	complaints []string // of the browser: errors, warnings and exceptions, and what it was made to load
}

// open opens a file.
func open(t *testing.T, browser context.Context, path string, on screen) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, path: path}
	if err := chromedp.Listen(ctx, p.hears); err != nil {
		t.Fatal(err)
	}
	p.on(on, "screen")
	p.do(chromedp.Navigate("file://" + path))
	p.settle()
	return p
}

// on shows the page on a screen, or as it is printed from there if the medium is print. The screen is that of a laptop in
// another size: a telephone's browser would make a page that is too wide smaller, instead of saying so.
func (p *tab) on(s screen, medium string) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(s.width, s.height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.scheme}},
		})
		return err
	}))
	p.settle()
}

// settle waits until the browser has drawn the page as it is now. What was folded has no size before the frame after the
// one in which it is unfolded, whatever its style says.
func (p *tab) settle() {
	p.t.Helper()
	const frames = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise)); err != nil {
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

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
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
	return wrong
})()`

// wrong is everything that is wrong with the page at first sight, and what the browser complained of since the last time.
func (p *tab) wrong() []string {
	found := ask[[]string](p, looks)
	p.mu.Lock()
	defer p.mu.Unlock()
	found, p.complaints = append(found, p.complaints...), nil
	return found
}

// photograph stores a picture of the page, if pictures are wanted: of all of it, or of what the screen shows.
func (p *tab) photograph(name string, of chromedp.Action[[]byte]) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, of)
	if err == nil {
		err = os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o666)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// filed is a page in a file.
func filed(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInABrowser opens a page of all that is stored on each screen: every picture is there, nothing is wider than the
// screen, nothing is loaded, and the browser complains of nothing. The control is a page of which each of this is wrong.
func TestInABrowser(t *testing.T) {
	chromium := browser(t)
	text := pagetest.Drawn(t, pagetest.Results(t, stored))
	pictures := strings.Count(text, "<svg")
	p := open(t, chromium, filed(t, text), screens()[0])
	for _, on := range screens() {
		t.Run(on.name, func(t *testing.T) {
			p.t = t
			p.on(on, "screen")
			for _, complaint := range p.wrong() {
				t.Error(complaint)
			}
			if n := ask[int](p, `document.querySelectorAll('svg').length`); n != pictures || n < 20 {
				t.Errorf("%d of %d pictures are there", n, pictures)
			}
			paper := ask[string](p, `getComputedStyle(document.body).backgroundColor`)
			if dark := paper != "rgb(255, 255, 255)"; dark != (on.scheme == "dark") {
				t.Errorf("the paper is %s for readers who prefer %s", paper, on.scheme)
			}
			p.photograph("all-"+on.name, chromedp.FullScreenshot(100))
		})
	}
	t.Run("control", func(t *testing.T) {
		bad := filed(t, `<!doctype html><meta name="viewport" content="width=device-width"><svg></svg>
			<div style="width: 3000px">wide</div><img src="nowhere.png"><script>console.error("oh"); nothing.at.all</script>`)
		found := strings.Join(open(t, chromium, bad, screens()[0]).wrong(), "\n")
		for _, want := range []string{"overflow: it is 3", "picture: ", "network: file:", "exception: ", "console: error", "log: "} {
			if !strings.Contains(found, want) {
				t.Errorf("nobody complains of %q:\n%s", want, found)
			}
		}
	})
}

// few is a page with everything there is to use: a run, and findings of three subjects.
func few(t *testing.T) *report.Document {
	faults := pagetest.Document(t, stored+"/faults/faults.json").Faults()
	faults.Subjects = []string{"watch", "set-px", "setnx"}
	faults.Findings = slices.DeleteFunc(faults.Findings, func(f result.Finding) bool {
		return !slices.Contains(faults.Subjects, f.Subject)
	})
	return report.Several([]string{"run", "faults"}, []*report.Document{pagetest.Document(t, stored+"/"+pagetest.Book), report.Faults(faults)})
}

// TestByKeyboard: Tab comes to everything that can be used, in the order of the page; Enter opens what is closed, and
// Escape closes a story.
func TestByKeyboard(t *testing.T) {
	p := open(t, browser(t), filed(t, pagetest.Drawn(t, few(t))), screens()[1])
	const usable = `Array.from(document.querySelectorAll('a[href], summary, [tabindex="0"]'))`
	ask[int](p, `(() => {
		window.visited = []
		const all = window.usable = `+usable+`.filter(e => e.checkVisibility({contentVisibilityAuto: true}))
		addEventListener('focusin', e => window.visited.push(all.indexOf(e.target)))
		return all.length
	})()`)
	n := ask[int](p, `window.usable.length`)
	if n < 80 {
		t.Fatalf("only %d things can be used", n)
	}
	p.do(chromedp.KeyEvent(strings.Repeat(kb.Tab, n)))
	p.settle()
	visited := ask[[]int](p, `window.visited`)
	for i := range n {
		if i >= len(visited) || visited[i] != i {
			t.Fatalf("Tab comes to %v; %s is not at its place", visited, ask[string](p, fmt.Sprintf(`window.usable[%d].outerHTML`, i)))
		}
	}

	for _, kind := range []string{".fold > summary", ".matrix summary"} {
		stuck := ask[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, kind))
		if stuck == 0 {
			t.Fatalf("there is no %s", kind)
		}
		for i := range min(stuck, 8) {
			ask[bool](p, fmt.Sprintf(`(document.querySelectorAll(%q)[%d].focus(), true)`, kind, i))
			p.do(chromedp.KeyEvent(kb.Enter))
			p.settle()
			if !ask[bool](p, fmt.Sprintf(`document.querySelectorAll(%q)[%d].parentElement.open`, kind, i)) {
				t.Errorf("Enter does not open number %d of %s", i, kind)
			}
		}
	}
	if open := ask[int](p, `document.querySelectorAll('.matrix details[open]').length`); open != 1 {
		t.Errorf("%d stories are open at a time", open)
	}
	p.photograph("story-1440-light", chromedp.CaptureScreenshot())
	p.do(chromedp.KeyEvent(kb.Escape))
	p.settle()
	if open := ask[int](p, `document.querySelectorAll('.matrix details[open]').length`); open != 0 {
		t.Error("Escape does not close the story")
	}
}

// TestWithoutScript: stories and everything that is folded open in a browser that runs no script.
func TestWithoutScript(t *testing.T) {
	text := pagetest.Drawn(t, few(t))
	before, rest, _ := strings.Cut(text, "<script>")
	_, after, _ := strings.Cut(rest, "</script>")
	p := open(t, browser(t), filed(t, before+after), screens()[0])
	for _, kind := range []string{".fold > summary", ".matrix summary"} {
		ask[bool](p, fmt.Sprintf(`(document.querySelector(%q).focus(), true)`, kind))
		p.do(chromedp.KeyEvent(kb.Enter))
		p.settle()
		if !ask[bool](p, fmt.Sprintf(`document.querySelector(%q).nextElementSibling.checkVisibility({contentVisibilityAuto: true})`, kind)) {
			t.Errorf("Enter does not open %s", kind)
		}
	}
	p.photograph("story-390-light", chromedp.CaptureScreenshot())
	// A link to what is folded unfolds it.
	ask[bool](p, `(document.querySelector('.matrix thead a').click(), true)`)
	p.settle()
	if to := ask[string](p, `(id => document.getElementById(id).closest('details').open ? '' : id)(location.hash.slice(1))`); to != "" {
		t.Errorf("the link to %s does not unfold it", to)
	}
}

// TestOnPaper: what is folded on a screen is printed, black on white, and no story lies over the rest.
func TestOnPaper(t *testing.T) {
	p := open(t, browser(t), filed(t, pagetest.Drawn(t, few(t))), screen{"", 1440, 900, "dark"})
	ask[bool](p, `(document.querySelector('.matrix details').open = true)`)
	p.on(screen{"", 1440, 900, "dark"}, "print")
	hidden := ask[[]string](p, `Array.from(document.querySelectorAll('.fold > :not(summary), .words > :not(summary)')).filter(
		e => !e.checkVisibility({contentVisibilityAuto: true}) || e.getBoundingClientRect().height === 0).map(e => e.id)`)
	if len(hidden) > 0 {
		t.Errorf("not printed: %v", hidden)
	}
	if shown := ask[bool](p, `document.querySelector('.matrix details[open] .story').checkVisibility()`); shown {
		t.Error("a story is printed over the page")
	}
	if paper := ask[string](p, `getComputedStyle(document.body).backgroundColor`); paper != "rgb(255, 255, 255)" {
		t.Errorf("the paper is %s", paper)
	}
	p.photograph("print", chromedp.FullScreenshot(100))
}
