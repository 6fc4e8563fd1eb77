package chart

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/marketsim/marketsim/bench/result"
)

// sheetOfPaper is a canvas that remembers what is drawn on it, and where.
type sheetOfPaper struct {
	*recorder.Canvas
	color  color.Color
	width  vg.Length
	texts  []placed
	fills  []drawn
	stroke []drawn
}

// placed is a text with the room it takes.
type placed struct {
	text string
	vg.Rectangle
}

type drawn struct {
	color color.Color
	width vg.Length
	path  vg.Path
}

func (s *sheetOfPaper) SetColor(c color.Color)   { s.color = c }
func (s *sheetOfPaper) SetLineWidth(w vg.Length) { s.width = w }
func (s *sheetOfPaper) Fill(p vg.Path)           { s.fills = append(s.fills, drawn{s.color, 0, p}) }
func (s *sheetOfPaper) Stroke(p vg.Path)         { s.stroke = append(s.stroke, drawn{s.color, s.width, p}) }
func (s *sheetOfPaper) Size() (w, h vg.Length)   { return width, 0 }

func (s *sheetOfPaper) FillString(face font.Face, at vg.Point, text string) {
	size := face.Font.Size
	s.texts = append(s.texts, placed{text, vg.Rectangle{
		Min: vg.Point{X: at.X, Y: at.Y - 0.15*size}, Max: vg.Point{X: at.X + face.Width(text), Y: at.Y + 0.7*size},
	}})
}

func drawnOn(f Figure) *sheetOfPaper {
	s := &sheetOfPaper{Canvas: &recorder.Canvas{}}
	f.draw(draw.NewCanvas(s, width, f.height()))
	return s
}

// dots are the marks of a shade that have the shape of a circle.
func (s *sheetOfPaper) dots(of shade) (n int) {
	for _, d := range s.fills {
		if d.color == of.color() && slices.ContainsFunc(d.path, func(c vg.PathComp) bool { return c.Type == vg.ArcComp }) {
			n++
		}
	}
	return n
}

// whiskers are the intervals of a shade: each is a line with two ends.
func (s *sheetOfPaper) whiskers(of shade) (n int) {
	for _, d := range s.stroke {
		if d.color == of.color() && d.width == 1.5 {
			n++
		}
	}
	return n / 3
}

// legible checks that every text lies on the picture, and that none lies on another.
func legible(t *testing.T, name string, f Figure) {
	t.Helper()
	s := drawnOn(f)
	for i, a := range s.texts {
		if a.Min.X < 0 || a.Max.X > width || a.Min.Y < 0 || a.Max.Y > f.height() {
			t.Errorf("%s: %s: %q reaches beyond the picture: %v", name, f.Name, a.text, a.Rectangle)
		}
		for _, b := range s.texts[:i] {
			if a.Min.X < b.Max.X-0.5 && b.Min.X < a.Max.X-0.5 && a.Min.Y < b.Max.Y-0.5 && b.Min.Y < a.Max.Y-0.5 {
				t.Errorf("%s: %s: %q lies on %q", name, f.Name, a.text, b.text)
			}
		}
	}
}

// measuredRow is a complete row.
func measuredRow(strategy string, sellers, buyers, trial int, rate float64) result.Row {
	commands, us := 9.0, 40.0
	return result.Row{
		Strategy: strategy, Sellers: sellers, Buyers: buyers, Trial: trial, Status: result.Complete, Seconds: 10,
		Bought: int64(10 * rate), PurchasesPerSecond: rate, WaitMS: result.Latency{Mean: 1, P99: 3},
		CommandsPerPurchase: commands, Cost: &result.Cost{ServerUS: &us}, Tries: &result.Tries{Mean: 1.5, P99: 7, Max: 9},
		TimeMS: &result.Split{LockWait: 0.5, LockHold: 0.3, Rest: 0.2}, PerBuyer: []int64{int64(rate), int64(rate)},
		Series: &result.Series{StepSeconds: 1, Purchases: []int64{int64(rate), int64(rate), int64(rate)}},
		Audit:  result.Audit{Done: true, OK: true},
	}
}

// inRounds is a run of strategies under two mixes, in so many rounds.
func inRounds(rounds int, strategies ...string) *result.Run {
	run := &result.Run{Schema: result.Schema, Status: result.Complete}
	run.Manifest.Config = result.Config{Strategies: strategies, Mixes: []string{"1x1", "5x5"}, Trials: rounds}
	for trial := 1; trial <= rounds; trial++ {
		for i, s := range strategies {
			for _, n := range []int{1, 5} {
				run.Rows = append(run.Rows, measuredRow(s, n, n, trial, float64(100*(i+1)*n+trial)))
			}
		}
	}
	return run
}

// long are names as long as a file may hold, which have no place to break.
func long() []string {
	return []string{strings.Repeat("w", 190), strings.Repeat("M:", 95), strings.Repeat("fine-wallet:set-px+watchdog:ttl=500ms:", 5), "watch"}
}

// swepts is a sweep of strategies over axes.
func sweptOver(strategies []string, axes ...result.Axis) *result.Run {
	run := inRounds(6, strategies...)
	run.Manifest.Config.Axes, run.Manifest.Config.Mixes = axes, nil
	run.Sweep = &result.Sweep{Findings: []string{"The first is best at 1 of 2 points.", "Nothing else was found."}}
	for _, p := range run.Manifest.Config.Points() {
		at := result.SweepPoint{At: p.At, Place: p.String(), Best: strategies[:1]}
		for i, s := range strategies {
			x := 1000 * (p.At[0] + 1) / float64(i+1)
			low, high := 0.9*x, 1.1*x
			at.Strategies = append(at.Strategies, result.Measured{Strategy: s, Rounds: 6,
				PerSecond: result.Estimate{Median: x, Low: &low, High: &high}, P99MS: result.Estimate{Median: 2}})
		}
		run.Sweep.Points = append(run.Sweep.Points, at)
	}
	return run
}

func clientsAxis() result.Axis {
	return result.Axis{Name: result.Clients, Values: []float64{1, 2, 4, 8, 16, 64}}
}

func holdAxis() result.Axis { return result.Axis{Name: result.Hold, Values: []float64{0, 1, 10}} }

// TestLegible looks for texts that are cut off or lie on each other, in what is stored and in what is as long as can be.
func TestLegible(t *testing.T) {
	runs := map[string]*result.Run{
		"long names": inRounds(6, long()...), "a sweep of long names": sweptOver(long(), clientsAxis()),
		"a map of long names": sweptOver(long(), clientsAxis(), holdAxis()),
	}
	for _, pattern := range []string{"*/run.json", "*/*/run.json"} {
		paths, err := filepath.Glob("../../results/" + pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(paths, err)
		}
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			run, err := result.ReadRun(file)
			file.Close()
			if err != nil {
				t.Fatal(err)
			}
			runs[path] = run
		}
	}
	for name, run := range runs {
		for _, f := range Of(run) {
			legible(t, name, f)
		}
	}
}

// figureOf is the figure with a name.
func figureOf(t *testing.T, run *result.Run, name string) Figure {
	t.Helper()
	for _, f := range Of(run) {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no figure %s", name)
	return Figure{}
}

// has checks that a figure shows texts, and that its alternative says them.
func has(t *testing.T, f Figure, s *sheetOfPaper, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(s.texts, func(p placed) bool { return p.text == text }) {
			t.Errorf("%s does not show %q but %v", f.Name, text, s.texts)
		}
	}
}

// TestIntervalOverManyDecades: a file may say that a ratio is known to lie between next to nothing and a million million.
func TestIntervalOverManyDecades(t *testing.T) {
	low, high := 1e-9, 1e12
	run := inRounds(9, "watch", "fine")
	run.Comparisons = []result.Comparison{{A: "watch", B: "fine", Mix: "5x5", Ratio: &high, Low: &low, High: &high, Verdict: result.Faster}}
	if s := drawnOn(figureOf(t, run, "comparison")); s.whiskers(series[0]) != 1 {
		t.Errorf("it has %d whiskers", s.whiskers(series[0]))
	}
	swept := sweptOver([]string{"fine"}, clientsAxis())
	swept.Sweep.Points[0].Strategies[0].PerSecond = result.Estimate{Median: high, Low: &low, High: &high}
	drawnOn(figureOf(t, swept, "sweep"))
}

// TestShades: each can be told from every other after a canvas has rounded it, at full strength and faint.
func TestShades(t *testing.T) {
	for _, s := range shades() {
		c := s.color()
		if got := fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B); got != s.light {
			t.Errorf("%s is %s, and read as %s", s.name, s.light, got)
		}
		for _, by := range []uint8{0, 2} {
			shifted := fmt.Sprintf("#%02X%02X%02X", max(c.R, by)-by, max(c.G, by)-by, max(c.B, by)-by)
			if found, ok := nearest(shifted); !ok || found.name != s.name {
				t.Errorf("%s of %s is taken for %s", shifted, s.name, found.name)
			}
		}
	}
	if _, ok := nearest("#123456"); ok {
		t.Error("a colour of nobody's is taken for a shade")
	}
}

// TestAxes: ticks are round, in order and inside, whatever the values.
func TestAxes(t *testing.T) {
	for _, values := range [][]float64{nil, {0}, {1}, {3, 7}, {1e-9, 1e12}, {0.5, 40}, {99, 101}, {1e12}, {-4, 5}} {
		for _, a := range []axis{logAxis("", short, values...), linearAxis("", short, values...)} {
			if !(a.min < a.max) || a.log && a.min <= 0 || len(a.ticks) < 2 {
				t.Errorf("the axis of %v is %+v", values, a)
			}
			labelled := 0
			for i, tick := range a.ticks {
				if tick.Value < a.min*(1-1e-6) || tick.Value > a.max*(1+1e-6) || i > 0 && tick.Value <= a.ticks[i-1].Value {
					t.Errorf("the axis of %v has the ticks %+v", values, a.ticks)
				}
				if tick.Label != "" {
					labelled++
				}
			}
			if labelled < 2 || labelled > 8 {
				t.Errorf("the axis of %v has %d labels: %+v", values, labelled, a.ticks)
			}
			for _, v := range values {
				if v > 0 && !a.shows(v) {
					t.Errorf("the axis of %v, from %v to %v, does not show %v", values, a.min, a.max, v)
				}
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.04: "0.04", 2.963: "2.96", 99.96: "100", 999.4: "999", 999.6: "1k", 1516: "1.52k", 38812: "38.8k", 1.2e6: "1.2M",
		3e9: "3G", 5e12: "5e+12", 0.00001: "1e-05",
	} {
		if got := short(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.0005: "0.5 us", 0.25: "250 us", 3.456: "3.46 ms", 999.7: "1 s", 61000: "61 s"} {
		if got := milliseconds(v); got != want {
			t.Errorf("%v ms are %s, want %s", v, got, want)
		}
	}
}

// TestWrap: no line is wider than its room, and nothing is lost.
func TestWrap(t *testing.T) {
	for _, text := range []string{"", "fine", strings.Repeat("w", 90), "fine-wallet:set-px+watchdog:ttl=500ms and more of it", "ééééééééééééé"} {
		lines := bodyType.wrap(text, 80)
		for _, line := range lines {
			if bodyType.wide(line) > 80 {
				t.Errorf("%q is wider than its room", line)
			}
		}
		got, want := strings.ReplaceAll(strings.Join(lines, ""), " ", ""), strings.ReplaceAll(text, " ", "")
		if len(lines) < mostLines && got != want {
			t.Errorf("%q became %q", text, lines)
		}
	}
	if lines := bodyType.wrap(strings.Repeat("w", 900), 80); len(lines) != mostLines || !strings.HasSuffix(lines[mostLines-1], "...") {
		t.Errorf("a text without an end became %q", lines)
	}
}

// TestDamagedHistograms are left out, and stop nothing.
func TestDamagedHistograms(t *testing.T) {
	h := hdrhistogram.New(1, 60_000_000, 3)
	for us := range int64(1000) {
		if err := h.RecordValue(us + 1); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	run := inRounds(1, "watch", "fine")
	run.Rows[0].Histograms.Purchase = string(whole)
	f := figureOf(t, run, "latency")
	if !strings.Contains(f.Alt, "watch 1x1 p50 500 us, p99 990 us.") {
		t.Errorf("it says: %s", f.Alt)
	}
	for i := range whole {
		for _, damaged := range [][]byte{whole[:i], slices.Concat(whole[:i], []byte("A"), whole[i+1:])} {
			run.Rows[0].Histograms.Purchase = string(damaged)
			Of(run)
		}
	}
}
