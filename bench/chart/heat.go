package chart

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/marketsim/marketsim/bench/result"
)

// A heatMap is a table whose cells are coloured: columns along one axis of a sweep, rows along the other.
type heatMap struct {
	x, y    result.Axis
	columns []float64
	rows    []float64 // the first is the lowest
	cell    func(column, row float64) (cell, bool)
}

// A cell is what a heat map shows at a point.
type cell struct {
	fill  color.Color
	text  string
	glyph *draw.GlyphStyle // left of the text, or nil
}

// mostCells is how many columns or rows a map has at most. A sweep of as many takes days.
const mostCells = 40

func newHeatMap(x, y result.Axis, of func(column, row float64) (cell, bool)) heatMap {
	values := func(a result.Axis) []float64 {
		all := slices.DeleteFunc(slices.Clone(a.Values), func(v float64) bool { return !sane(v) })
		slices.Sort(all)
		all = slices.Compact(all)
		return all[:min(len(all), mostCells)]
	}
	return heatMap{x, y, values(x), values(y), of}
}

// rowHigh is the height of a row of a map.
const rowHigh vg.Length = 26

func (h heatMap) part() part {
	return part{vg.Length(len(h.rows))*rowHigh + 3*noteType.leading() + 8, h.draw}
}

func (h heatMap) draw(c draw.Canvas) {
	noteType.write(c, c.Min.X+margin, c.Max.Y-noteType.size, 0, axisTitle(h.y.Name))
	left := c.Min.X + margin + gutter
	top := c.Max.Y - noteType.leading() - 3
	wide := (c.Max.X - margin - left) / vg.Length(max(1, len(h.columns)))
	bottom := top - vg.Length(len(h.rows))*rowHigh
	for i, row := range h.rows {
		y := bottom + vg.Length(i)*rowHigh
		noteType.write(c, left-5, y+rowHigh/2-3.5, 1, axisValue(h.y.Name, row))
		for j, column := range h.columns {
			x := left + vg.Length(j)*wide
			at, found := h.cell(column, row)
			if !found {
				at = cell{fill: band.color(), text: "-"}
			}
			at.draw(c, vg.Rectangle{Min: vg.Point{X: x + 0.5, Y: y + 0.5}, Max: vg.Point{X: x + wide - 0.5, Y: y + rowHigh - 0.5}})
		}
	}
	end := vg.Length(math.Inf(-1))
	for j, column := range h.columns {
		label := axisValue(h.x.Name, column)
		at := left + (vg.Length(j)+0.5)*wide
		if half := noteType.wide(label) / 2; at-half > end+3 {
			noteType.write(c, at, bottom-noteType.size-1, 0.5, label)
			end = at + half
		}
	}
	noteType.write(c, (left+c.Max.X-margin)/2, bottom-noteType.size-noteType.leading()-1, 0.5, axisTitle(h.x.Name))
}

// draw fills a cell, with its text where that fits.
func (at cell) draw(c draw.Canvas, r vg.Rectangle) {
	fill(c, at.fill, r.Min.X, r.Min.Y, r.Max.X, r.Max.Y)
	middle := vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}
	room := r.Max.X - r.Min.X
	text := typeface{10, false, ink}
	fits := text.wide(at.text)+2 <= room
	if at.glyph != nil {
		place := middle
		if fits && at.text != "" {
			place.Y += 5.5
		}
		c.DrawGlyphNoClip(*at.glyph, place)
		middle.Y -= 6.5
	}
	if fits {
		text.write(c, middle.X, middle.Y-3.5, 0.5, at.text)
	}
}

// pointAt is the point of a sweep at these values of its two axes.
func pointAt(s *result.Sweep, x, y float64) (result.SweepPoint, bool) {
	for _, p := range s.Points {
		if len(p.At) == 2 && p.At[0] == x && p.At[1] == y {
			return p, true
		}
	}
	return result.SweepPoint{}, false
}

// A spot is a strategy at a point of a sweep with two axes.
type spot struct {
	strategy string
	x, y     float64
}

// mapOf is a topic as a map for each strategy, all with the same colours for the same numbers.
func mapOf(run *result.Run, x, y result.Axis, t topic) []Figure {
	values, stars, known := map[spot]value{}, map[spot]string{}, map[string]bool{}
	var all []float64
	for _, p := range run.Sweep.Points {
		if len(p.At) != 2 {
			continue
		}
		for _, m := range p.Strategies {
			v, at := estimated(t.of(m)), spot{m.Strategy, p.At[0], p.At[1]}
			if v.n == 0 {
				continue
			}
			values[at], known[m.Strategy] = v, true
			if all = append(all, v.center); m.Problem != "" {
				stars[at] = "*"
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	low, high := span(all, func(v float64) bool { return v > 0 })
	steps := heatSteps{low, high}
	parts := []part{steps.keys(t.say)}
	var says []string
	names, _ := swept(run)
	for _, name := range names {
		if !known[name] {
			continue
		}
		say := func(column, row float64) string {
			at := spot{name, column, row}
			return t.say(values[at].center) + stars[at]
		}
		h := newHeatMap(x, y, func(column, row float64) (cell, bool) {
			v, found := values[spot{name, column, row}]
			return cell{fill: steps.shade(v.center).color(), text: say(column, row)}, found
		})
		parts = append(parts, heading(clean(name)), h.part(), space(6))
		says = append(says, clean(name)+" "+mapInWords(h, say))
	}
	about := fmt.Sprintf("%s over %s and %s: one map for each strategy, with the same colours; %s.", t.what, axisTitle(x.Name),
		axisTitle(y.Name), medians(run)) + unjudged(run.Sweep, "A star")
	return []Figure{figure(run, t.name, t.title+" by "+axisTitle(x.Name)+" and "+axisTitle(y.Name), about,
		about+" "+told(says), parts...)}
}

// mapInWords tells each cell of a map.
func mapInWords(h heatMap, say func(column, row float64) string) string {
	var each []string
	for _, row := range h.rows {
		for _, column := range h.columns {
			if _, found := h.cell(column, row); found && len(each) < mostSaid {
				each = append(each, fmt.Sprintf("%s at %s and %s", say(column, row), axisValue(h.x.Name, column),
					axisValue(h.y.Name, row)))
			}
		}
	}
	return listed(each)
}

// heatSteps divide what lies between two numbers into steps of equal ratio, a shade each.
type heatSteps struct{ low, high float64 }

func (s heatSteps) shade(v float64) shade {
	if !(s.low < s.high) || !(v > 0) {
		return heat[0]
	}
	part := math.Log(v/s.low) / math.Log(s.high/s.low)
	return heat[min(max(int(part*float64(len(heat))), 0), len(heat)-1)]
}

// keys explain the shades.
func (s heatSteps) keys(say func(float64) string) part {
	n := len(heat)
	if !(s.low < s.high) {
		n = 1
	}
	return part{30, func(c draw.Canvas) {
		wide := inner / vg.Length(len(heat))
		for i := range n {
			left, bottom := c.Min.X+margin+vg.Length(i)*wide, c.Max.Y-12
			fill(c, heat[i].color(), left, bottom, left+wide, bottom+10)
			from := s.low * math.Pow(s.high/s.low, float64(i)/float64(n))
			noteType.write(c, left, bottom-noteType.size-1, 0, "from "+say(from))
		}
	}}
}

// bestMap is the best strategy at each point of a sweep with two axes, and how far ahead it is.
func bestMap(run *result.Run, x, y result.Axis) []Figure {
	_, looks := swept(run)
	used := map[string]int{}
	var undecided int
	h := newHeatMap(x, y, func(column, row float64) (cell, bool) {
		p, found := pointAt(run.Sweep, column, row)
		if !found || len(p.Best) == 0 {
			return cell{}, false
		}
		if len(p.Best) > 1 {
			return cell{fill: band.color(), text: fmt.Sprintf("%d of %d", len(p.Best), len(p.Strategies))}, true
		}
		l, ahead := looks[p.Best[0]], ahead(p)
		glyph := draw.GlyphStyle{Color: l.color(), Radius: 4, Shape: l.shape}
		return cell{fill: l.faint(0x38), text: ahead, glyph: &glyph}, true
	})
	var says []string
	for _, row := range h.rows {
		for _, column := range h.columns {
			p, found := pointAt(run.Sweep, column, row)
			if !found || len(p.Best) == 0 {
				continue
			}
			where := fmt.Sprintf("at %s and %s ", axisValue(x.Name, column), axisValue(y.Name, row))
			if len(p.Best) > 1 {
				undecided++
				var names []string
				for _, b := range p.Best {
					names = append(names, clean(b))
				}
				says = append(says, where+"not decided between "+listed(names))
				continue
			}
			if _, known := looks[p.Best[0]]; !known {
				continue
			}
			used[p.Best[0]]++
			says = append(says, where+clean(p.Best[0])+", "+ahead(p))
		}
	}
	if len(says) == 0 {
		return nil
	}
	var legend []key
	names, _ := swept(run)
	for _, name := range names {
		if n := used[name]; n > 0 {
			g := looks[name].glyph()
			legend = append(legend, key{glyph: &g, text: clean(name), note: fmt.Sprintf("%d of %d", n, len(says))})
		}
	}
	if undecided > 0 {
		g := draw.GlyphStyle{Color: band.color(), Radius: 5, Shape: draw.BoxGlyph{}}
		legend = append(legend, key{
			glyph: &g, text: "not decided between so many", note: fmt.Sprintf("%d of %d", undecided, len(says))})
	}
	about := "The strategy with the most purchases a second at each point, and how many times those of the second; " + medians(run)
	parts, alt := withFindings(run.Sweep, topic{name: "sweep"}, []part{h.part(), keys(legend...)}, about+": "+told(says))
	return []Figure{figure(run, "best", "Which is best where", about, alt, parts...)}
}

// ahead is how many times the purchases of the second best the best makes; empty if there is no second.
func ahead(p result.SweepPoint) string {
	var best, second float64
	for _, m := range p.Strategies {
		v := estimated(&m.PerSecond)
		if m.Strategy == p.Best[0] {
			best = v.center
		} else {
			second = max(second, v.center)
		}
	}
	if best <= 0 || second <= 0 || !sane(best/second) {
		return ""
	}
	return fmt.Sprintf("%.3gx", best/second)
}
