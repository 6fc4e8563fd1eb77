package view

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
)

// named is the figure of a run with a name.
func named(t *testing.T, run *runs.Run, name string) Figure {
	t.Helper()
	figures := Figures(run)
	i := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("there is no figure %s", name)
	}
	return figures[i]
}

// TestPercentiles: a curve goes through the percentiles of the waits, by nearest rank,
// and ends where fewer than ten waits are longer. A row without a histogram, or with a
// damaged one, has the four that are stored beside it.
func TestPercentiles(t *testing.T) {
	waits := hdrhistogram.New(1, 60_000_000, 2)
	for us := range int64(200) { // which the histogram keeps exactly
		testkit.Succeeds(t, waits.RecordValues(us+1, 100))
	}
	encoded := string(testkit.Must(waits.Encode(hdrhistogram.V2CompressedEncodingCookieBase))(t))
	stored := result.Latency{P50: 0.1, P90: 0.18, P99: 0.198, P999: 0.2, Max: 0.2, Count: 20_000}

	full := percentiles(result.Row{WaitMS: stored, Histogram: encoded})
	for n, want := range map[float64]float64{1: 0.001, 2: 0.1, 10: 0.18, 100: 0.198, 1000: 0.2} {
		if got := full[n]; got != want {
			t.Errorf("1 in %v waits is longer than %v ms, want %v", n, got, want)
		}
	}
	last := 0.0
	for n := range full {
		last = max(last, n)
	}
	if last > 2000 || last < 1000 || len(full) < 50 {
		t.Errorf("of 20,000 waits there are %d percentiles, the last of 1 in %v", len(full), last)
	}

	single := hdrhistogram.New(1, 60_000_000, 2)
	for us := range int64(101) {
		testkit.Succeeds(t, single.RecordValue(us+1))
	}
	encoded = string(testkit.Must(single.Encode(hdrhistogram.V2CompressedEncodingCookieBase))(t))
	few := percentiles(result.Row{WaitMS: result.Latency{Max: 0.101, Count: 101}, Histogram: encoded})
	if few[2] != 0.051 || few[10] != 0.091 || few[100] != 0 {
		t.Errorf("of 101 waits the 51st is %v ms, the 91st %v; the 100th, %v, has none longer",
			few[2], few[10], few[100])
	}

	for _, histogram := range []string{"", "damaged", encoded[:len(encoded)/2]} {
		four := percentiles(result.Row{WaitMS: stored, Histogram: histogram})
		want := map[float64]float64{2: 0.1, 10: 0.18, 100: 0.198, 1000: 0.2}
		if fmt.Sprint(four) != fmt.Sprint(want) {
			t.Errorf("without a histogram it has %v, want %v", four, want)
		}
	}
	stored.Count = 9_999
	if few := percentiles(result.Row{WaitMS: stored}); few[1000] != 0 || few[100] == 0 {
		t.Errorf("of 9,999 waits it has %v", few)
	}
}

// TestLatencyAxis: the axis is by the number of nines, which stand as far from each other.
func TestLatencyAxis(t *testing.T) {
	f := named(t, drawn(t)["compared"], "latency")
	x := newRuler(f.X, []float64{1, 10_000}, 0, 1000)
	var texts []string
	for _, tick := range x.marks() {
		texts = append(texts, x.text(tick))
	}
	if want := []string{"0%", "50%", "90%", "99%", "99.9%", "99.99%"}; !slices.Equal(texts, want) {
		t.Errorf("the ticks are %q, want %q", texts, want)
	}
	if a, b := x.at(100)-x.at(10), x.at(10_000)-x.at(1000); math.Abs(a-b) > 1e-9 {
		t.Errorf("99%% is %v from 90%%, and 99.99%% is %v from 99.9%%", a, b)
	}
}

// TestCourse: each interval has its rate, and an end that is too short for one is left out.
func TestCourse(t *testing.T) {
	run := &runs.Run{Rows: []result.Row{{
		Point:         result.Point{Strategy: "lua", Mix: result.Mix{Sellers: 1, Buyers: 1}},
		Trial:         1,
		Status:        stored.Complete,
		Seconds:       5.5,
		CourseSeconds: 2,
		Course:        []int64{200, 300, 75}, // the last in 1.5 s
	}}}

	line := named(t, run, "course").Panels[0].Lines[0]
	if fmt.Sprint(line.X, line.Y) != "[1 3 5] [100 150 50]" {
		t.Errorf("the course is %v at %v", line.Y, line.X)
	}

	run.Rows[0].Seconds = 4.4
	if line := named(t, run, "course").Panels[0].Lines[0]; len(line.Y) != 2 {
		t.Errorf("with an end of 0.4 s the course is %v", line.Y)
	}
}

// TestRetries: they are a figure where something was retried, 0 included, along the axis
// of a sweep and place by place without one.
func TestRetries(t *testing.T) {
	for _, name := range []string{"compared", "swept"} {
		run := drawn(t)[name]
		for i := range run.Rows {
			if r := &run.Rows[i]; r.Strategy == "watch" {
				r.Retries = 50 * r.WaitMS.Count
			}
		}

		var out bytes.Buffer
		testkit.Succeeds(t, SVG(&out, named(t, run, "retries")))
		for _, want := range []string{">0<", "retries per purchase", "watch", "lua"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not drawn:\n%s", name, want, out.String())
			}
		}
	}
}

// TestTicksOfASweep stand where was measured, and nowhere else.
func TestTicksOfASweep(t *testing.T) {
	f := named(t, drawn(t)["swept"], "sweep")
	x := newRuler(f.X, []float64{1, 2, 4, 8}, 0, 500)
	if marks := fmt.Sprint(x.marks()); marks != "[{1 } {2 } {4 } {8 }]" {
		t.Errorf("the ticks are %s", marks)
	}

	// Where most of what was asked for was not reached, round numbers stand there.
	x = newRuler(f.X, []float64{10, 50}, 0, 500)
	if len(x.marks()) < 2 {
		t.Errorf("the ticks are %v", x.marks())
	}

	// Where two would stand in each other, one has a line without a number.
	var d drawing
	crowd := Scale{Ticks: []Tick{{At: 1000}, {At: 1001}, {At: 2000}}}
	newRuler(crowd, []float64{0, 2000}, 0, 200).below(&d, 0, 10)
	if len(d.Paths) != 3 || len(d.Texts) != 2 {
		t.Errorf("of three ticks %d have lines and %d numbers", len(d.Paths), len(d.Texts))
	}
}

// TestTickTexts: no two ticks of a small scale read alike.
func TestTickTexts(t *testing.T) {
	r := ruler{Scale: Scale{Log: true}, low: 0.0001, high: 0.01}
	var texts []string
	for _, tick := range r.marks() {
		texts = append(texts, r.text(tick))
	}
	if n := len(slices.Compact(slices.Clone(texts))); n < len(texts) ||
		!slices.Contains(texts, "0.0005") {
		t.Errorf("the ticks read %q", texts)
	}
}

// TestLooks: ten curves have ten colours, which differ from each other and from the paper,
// in light and in dark; and no two of fifty have colour and dash in common.
func TestLooks(t *testing.T) {
	var out bytes.Buffer
	testkit.Succeeds(t, SVG(&out, named(t, drawn(t)["swept"], "sweep")))
	light, dark, found := strings.Cut(out.String(), "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("it has no dark colours")
	}

	colour := regexp.MustCompile(`\.figure \.c([0-9]) \{ stroke: (#[0-9a-f]{6}); fill: (#[0-9a-f]{6}); \}`)
	paper := regexp.MustCompile(`\.figure \{[^}]*background: (#[0-9a-f]+);`)
	for scheme, css := range map[string]string{"light": light, "dark": dark} {
		on := paper.FindStringSubmatch(css)[1]
		if on == "#fff" {
			on = "#ffffff"
		}
		all := colour.FindAllStringSubmatch(css, -1)
		if len(all) != colours {
			t.Fatalf("%s: %d colours, want %d", scheme, len(all), colours)
		}
		for i, a := range all {
			if contrast := contrast(a[2], on); contrast < 3 || a[2] != a[3] {
				t.Errorf("%s: %s has a contrast of %.1f on %s", scheme, a[0], contrast, on)
			}
			for _, b := range all[:i] {
				if d := distance(a[2], b[2]); d < 18 {
					t.Errorf("%s: c%s and c%s, %s and %s, differ by %.0f", scheme, a[1], b[1], a[2], b[2], d)
				}
			}
		}
	}

	seen := map[string]bool{}
	for i := range colours * dashes {
		seen[look(i)] = true
	}
	if len(seen) != colours*dashes {
		t.Errorf("%d curves have %d looks", colours*dashes, len(seen))
	}
	for i := 1; i < dashes; i++ { // 0 is a line without gaps
		if !strings.Contains(light, fmt.Sprintf("path.d%d { stroke-dasharray", i)) {
			t.Errorf("d%d has no dash", i)
		}
	}
}

// linear are the linear parts of a colour in sRGB, 0 to 1.
func linear(colour string) (parts [3]float64) {
	for i := range parts {
		n, _ := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		v := float64(n) / 255
		parts[i] = v / 12.92
		if v > 0.04045 {
			parts[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return parts
}

// contrast is that of two colours by WCAG 2: 1 to 21.
func contrast(a, b string) float64 {
	light := func(colour string) float64 {
		p := linear(colour)
		return 0.2126*p[0] + 0.7152*p[1] + 0.0722*p[2] + 0.05
	}
	return max(light(a), light(b)) / min(light(a), light(b))
}

// distance is that of two colours in CIELAB; 2 can just be told apart side by side.
func distance(a, b string) float64 {
	p, q := lab(a), lab(b)
	return math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2])
}

func lab(colour string) [3]float64 {
	p := linear(colour)
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x := f((0.4124*p[0] + 0.3576*p[1] + 0.1805*p[2]) / 0.9505)
	y := f(0.2126*p[0] + 0.7152*p[1] + 0.0722*p[2])
	z := f((0.0193*p[0] + 0.1192*p[1] + 0.9505*p[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// TestKeys: names stand below each other, within the panel if there is room.
func TestKeys(t *testing.T) {
	all := []key{{name: "a", y: 99}, {name: "b", y: 98}, {name: "c", y: 10}, {name: "d", y: 100}}
	var d drawing
	d.keys(all, 0, 0, 100)

	names, last := "", -1.0
	for _, text := range d.Texts {
		names += text.Text
		if text.Y < last+14 || text.Y > 104 {
			t.Errorf("%s stands at %v, below one at %v", text.Text, text.Y, last)
		}
		last = text.Y
	}

	if names != "cbad" {
		t.Errorf("the order of the names is %s", names)
	}
}
