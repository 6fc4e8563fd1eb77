package view

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"
	"github.com/olekukonko/tablewriter/pkg/twwarp"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/verify"
)

// Explored is the report of searches: a table of all, and the shortest schedule to the first harm of each scheme.
func Explored(r *verify.Explorations) *Doc {
	harmed := map[string]bool{} // of each scheme, whether it was
	searched, harms := 0, 0
	for _, e := range r.Searches {
		harmed[e.Scheme] = harmed[e.Scheme] || e.Harm != ""
		if e.Concludes() {
			searched++
		}
		if e.Harm != "" {
			harms++
		}
	}
	d := &Doc{
		Title: fmt.Sprintf("Every schedule: %s of %s", searches(searched), count(len(harmed), "scheme")),
		Facts: []string{
			"marketsim " + known(r.Version) + ". Taken for granted: " + r.Assumed() + ".",
		},
	}
	for _, e := range r.Broken() {
		d.Findings = append(d.Findings, fmt.Sprintf("BROKEN PROMISE: %s says %q, and in %s: %s.",
			e.Scheme, e.Broken, e.Program, e.Found()))
	}
	switch {
	case searched == 0:
		d.Findings = append(d.Findings, "Nothing can be concluded: no search came to its end.")
	case harms == 0:
		d.Findings = append(d.Findings, fmt.Sprintf("No harm was found in %s, within the bounds below.", searches(searched)))
	case searched > 1:
		d.Findings = append(d.Findings, fmt.Sprintf("Harm was found in %d of %s.", harms, searches(searched)))
	}
	if r.Judged {
		d.Title, d.Findings = "Judged: "+listed(slices.Sorted(maps.Keys(harmed))), d.Findings[:len(r.Broken())]
		if len(d.Findings) == 0 {
			d.Findings = []string{"Nothing breaks what a lock promises, within the bounds below. That a client which is " +
				"stopped outlives its lease breaks nothing: no lock that expires prevents it."}
		}
	}
	var safe []string
	for _, e := range r.Searches {
		if e.Concludes() && !harmed[e.Scheme] && !slices.Contains(safe, e.Scheme) {
			safe = append(safe, e.Scheme)
		}
	}
	if harms > 0 && len(safe) > 0 && !r.Judged {
		d.Findings = append(d.Findings, "Nothing was found of "+listed(safe)+".")
	}
	d.Findings = atMost(d.Findings)
	note := "Of a harm the bounds are those of the shortest schedule, and schedules says how many of how many do harm. " +
		"\"Not searched\": without a preemption no client comes between two requests of another."
	if searched > 1 || harms == 0 || r.Judged {
		d.Blocks = append(d.Blocks, Block{Heading: "All searches", Table: ExploredTable(r.Searches), Note: []string{note}})
	}
	for _, e := range r.Searches {
		if e.Diagram != nil {
			d.Blocks = append(d.Blocks, scheduleBlock(e, r.Again(e)))
		}
	}
	return d
}

func searches(n int) string { return english.Plural(n, "search", "searches") }

// ExploredTable is what searches found, a row each.
func ExploredTable(all []verify.Explored) *Table {
	t := NewTable("scheme", "program", "faults that strike", "found", "preemptions", "faults", "schedules")
	for _, e := range all {
		if e.Why != "" {
			t.Add(e.Scheme, none, "", e.Found())
			continue
		}
		of, schedules := "each kind", Number(float64(e.Schedules), result.Number)
		if len(e.Of) > 0 {
			of = strings.Join(e.Of, ", ")
		}
		if e.Harm != "" {
			schedules = fmt.Sprintf("%d of %d", e.Harmful, e.Schedules)
		}
		t.Add(e.Scheme, e.Program, of, e.Found(), fmt.Sprint(e.Preemptions), fmt.Sprint(e.Faults), schedules)
	}
	return t.without("", "each kind")
}

// Schedules are the shortest schedules to the harms that were found, a figure each, by the name of the scheme.
func Schedules(r *verify.Explorations) (all []Figure) {
	for _, e := range r.Searches {
		if e.Diagram != nil {
			all = append(all, schedule(e))
		}
	}
	return all
}

func schedule(e verify.Explored) Figure {
	title := fmt.Sprintf("%s in %s: %s", e.Scheme, e.Program, cmp.Or(e.Harm, verify.NoHarm))
	return Figure{Name: e.Scheme, Title: title, Schedule: e.Diagram}
}

// scheduleBlock is a harm with its shortest schedule: a table where nothing can be drawn, and else a picture.
func scheduleBlock(e verify.Explored, again string) Block {
	figure := schedule(e)
	return Block{
		Heading: figure.Title,
		Note: append(slices.Clone(e.Diagram.End), fmt.Sprintf("The shortest schedule has %s and %s. Play it again: %s",
			count(e.Preemptions, "preemption"), count(e.Faults, "fault"), again)),
		Table: scheduleTable(*e.Diagram), Schedule: &figure,
	}
}

func scheduleTable(d verify.Diagram) *Table {
	head, rows := d.Cells()
	t := NewTable(head...)
	for _, cells := range rows {
		t.Add(cells...)
	}
	return t
}

// The sizes of a sequence diagram, in units of its viewBox.
const (
	laneGap     = 340.0 // between two lifelines
	laneMargin  = 84.0  // before the first: times; and behind the last
	eventHeight = 40.0
	codeLetter  = 6.7 // about how wide one is of a command
)

// sequence is the diagram of a schedule while it is drawn. A command that is cut stands in full in its title.
type sequence struct {
	drawing
	verify.Diagram
	lanes  []float64 // of the clients, and then of the server
	y      float64   // of the event that is drawn
	paused map[int]float64
	ended  map[int]bool
}

func newSequence(title string, d verify.Diagram) *drawing {
	s := &sequence{Diagram: d, paused: map[int]float64{}, ended: map[int]bool{}, y: head + 46}
	left := (len(d.Clients) + 1) / 2 // of the server
	for i := range d.Clients {
		place := i
		if i >= left {
			place++
		}
		s.lanes = append(s.lanes, laneMargin+laneGap*float64(place))
	}
	s.lanes = append(s.lanes, laneMargin+laneGap*float64(left))
	s.Title, s.Width = printable(title), 2*laneMargin+laneGap*float64(len(d.Clients))
	s.write("title", "start", title, 8, 22)
	for i, name := range append(slices.Clone(d.Clients), "server") {
		s.write("panel", "middle", name, s.lanes[i], head+20)
	}
	last := time.Duration(-1)
	for _, e := range d.Events {
		if at := e.At.Round(time.Millisecond); at != last {
			s.write("quiet", "start", at.String(), 8, s.y+4)
			last = at
		}
		s.event(e)
		s.y += eventHeight
	}
	for i := range s.lanes {
		s.end(i)
	}
	s.tells()
	s.Height = s.y
	return &s.drawing
}

func (s *sequence) server() float64 { return s.lanes[len(s.lanes)-1] }

// starred is what stands between asterisks: what happens to a client or a server.
func starred(text string) (happens string, is bool) {
	happens = strings.TrimSuffix(strings.TrimPrefix(text, "*"), "*")
	return happens, strings.HasPrefix(text, "*")
}

func (s *sequence) event(e verify.Event) {
	happens, strikes := starred(e.Does)
	reply, replyIs := starred(e.Reply)
	switch {
	case e.Client < 0:
		class := "fault"
		if e.Reply == verify.TimeGoesOn {
			class = "quiet"
		}
		s.beside(class, reply, s.server(), 1)
	case strikes:
		s.beside("fault", happens, s.lanes[e.Client], s.server()-s.lanes[e.Client])
		if at, paused := s.paused[e.Client]; paused {
			s.stroke("paused", s.lanes[e.Client], at, s.lanes[e.Client], s.y)
			delete(s.paused, e.Client)
		} else if happens == "pauses" {
			s.paused[e.Client] = s.y
		}
	default:
		s.request(e, reply, replyIs)
	}
}

// beside marks a place of a lifeline, and writes what happens there on one side of it.
func (s *sequence) beside(class, happens string, x, side float64) {
	s.Marks = append(s.Marks, mark{class, round1(x), round1(s.y)})
	anchor, by := "start", 10.0
	if side < 0 {
		anchor, by = "end", -10
	}
	s.write(class, anchor, happens, x+by, s.y+4)
}

// request draws an arrow to the server, or to a cross on the way, with the command above it and the reply below.
func (s *sequence) request(e verify.Event, reply string, strikes bool) {
	from, to, class := s.lanes[e.Client], s.server(), "line0"
	if strikes {
		class = "fault"
	}
	arrives := !strikes || strings.HasPrefix(reply, "executed") || strings.HasPrefix(reply, "comes late") ||
		strings.HasPrefix(reply, "only this part")
	room := int((math.Abs(to-from) - 24) / codeLetter)
	s.code("code", e.Does, (from+to)/2, s.y-6, room)
	back := math.Copysign(7, to-from) // of the head of the arrow
	if !arrives {
		to = from + (to-from)*0.7
		s.stroke(class, to-5, s.y-5, to+5, s.y+5)
		s.stroke(class, to-5, s.y+5, to+5, s.y-5)
	}
	s.stroke(class, from, s.y, to, s.y)
	if arrives {
		s.stroke(class, to-back, s.y-4, to, s.y, to-back, s.y+4)
	}
	class = "code quiet"
	if strikes {
		class = "fault"
	} else if reply != "" {
		reply = "→ " + reply
	}
	s.code(class, reply, (from+s.server())/2, s.y+13, room)
	if strings.HasSuffix(reply, "the client dies") {
		s.y += 8
		s.end(e.Client)
		s.write("fault", "middle", "✕", s.lanes[e.Client], s.y+6)
	}
}

// code writes what is cut where it is longer than its room.
func (s *sequence) code(class, words string, x, y float64, room int) {
	shown := printable(words)
	if utf8.RuneCountInString(shown) > room {
		shown = string([]rune(shown)[:room-1]) + "…"
	}
	s.write(class, "middle", shown, x, y)
	if shown != printable(words) {
		s.Texts[len(s.Texts)-1].Full = printable(words)
	}
}

// end draws a lifeline down to here.
func (s *sequence) end(i int) {
	if s.ended[i] {
		return
	}
	s.ended[i] = true
	s.stroke("life", s.lanes[i], head+28, s.lanes[i], s.y)
	if at, paused := s.paused[i]; paused {
		s.stroke("paused", s.lanes[i], at, s.lanes[i], s.y)
	}
}

// tells writes what each client was told, and the harm, below the lifelines.
func (s *sequence) tells() {
	s.y += 24
	for _, text := range s.End {
		class := "name"
		if strings.HasPrefix(text, "Harm: ") {
			class = "harm"
		}
		lines, _ := twwarp.WrapString(printable(text), int((s.Width-16)/letter))
		for _, line := range lines {
			s.write(class, "start", line, 8, s.y)
			s.y += 18
		}
	}
}
