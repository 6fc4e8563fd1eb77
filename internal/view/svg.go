package view

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/marketsim/marketsim/verify"
)

// The sizes of a figure, in units of its viewBox.
const (
	head        = 34.0 // above the first panel
	letter      = 7.0  // about how wide one is
	titleLetter = 7.8  // of a title
)

type drawing struct {
	Title         string
	Width, Height float64
	Paths         []path
	Marks         []mark
	Points        []mark // of curves, which are smaller
	Texts         []text
}

type path struct{ Class, D string }

type mark struct {
	Class string
	X, Y  float64
}

type text struct {
	Class, Anchor, Text string
	X, Y                float64
	Full                string // of a text that was cut; empty: it was not
}

// figureTemplate draws with the reader's font and colours, dark ones where the
// reader prefers them.
var figureTemplate = template.Must(template.ParseFS(files, "figure.gosvg"))

// SVG draws a figure.
func SVG(w io.Writer, f Figure) error {
	if err := figureTemplate.Execute(w, f.drawing()); err != nil {
		return fmt.Errorf("draw the figure %s: %w", f.Name, err)
	}
	return nil
}

// drawing lays out a figure, of which one without a Schedule has a panel at least: Figures
// leaves out others. All its panels have dots, or all have lines.
func (f Figure) drawing() *drawing {
	if f.Schedule != nil {
		return newSequence(f.Title, f.Schedule.Brief())
	}

	f = f.labelled()
	d := &drawing{Title: shown(f.Title), Width: figureWidth, Height: head}
	d.fit("title", "start", f.Title, 8, 22, titleRoom(d.Width))
	if len(f.Panels[0].Dots) > 0 {
		f.drawDots(d)
	} else {
		f.drawLines(d)
	}
	return d
}

func (d *drawing) write(class, anchor, words string, x, y float64) {
	d.Texts = append(d.Texts, text{Class: class, Anchor: anchor, Text: shown(words), X: round1(x), Y: round1(y)})
}

// fit writes a text of which there is room for so many letters. What is longer is cut,
// and has all of it in its title, which a pointer shows.
func (d *drawing) fit(class, anchor, words string, x, y float64, room int) {
	whole := shown(words)
	d.write(class, anchor, shortened(whole, room), x, y)
	if written := &d.Texts[len(d.Texts)-1]; written.Text != whole {
		written.Full = whole
	}
}

// shortened is a text of so many letters at most.
func shortened(text string, letters int) string {
	if utf8.RuneCountInString(text) <= letters {
		return text
	}
	return string([]rune(text)[:letters-1]) + "…"
}

// titleRoom is how many letters there are room for in the title of a figure.
func titleRoom(width float64) int { return int((width - 16) / titleLetter) }

// labelled is a figure whose labels of dots and lines leave room for these.
func (f Figure) labelled() Figure {
	const most = 100 // letters
	f.Panels = mapped(f.Panels, func(p Panel) Panel {
		p.Dots = mapped(p.Dots, func(d Dot) Dot {
			d.Label = shortened(shown(d.Label), most)
			return d
		})
		p.Lines = mapped(p.Lines, func(c Curve) Curve {
			c.Label = shortened(shown(c.Label), most)
			return c
		})
		return p
	})
	return f
}

func (d *drawing) stroke(class string, points ...float64) {
	var b strings.Builder
	for i := 0; i+1 < len(points); i += 2 {
		verb := "ML"[min(i, 1)] // moves to the first point, and goes on by lines
		fmt.Fprintf(&b, "%c%v %v", verb, round1(points[i]), round1(points[i+1]))
	}
	d.Paths = append(d.Paths, path{class, b.String()})
}

func round1(v float64) float64 { return math.Round(10*v) / 10 }

// The sizes of a sequence diagram, in units of its viewBox.
const (
	laneGap     = 340.0 // between two lifelines
	laneMargin  = 84.0  // before the first: times; and behind the last
	eventHeight = 40.0
	codeLetter  = 6.7 // about how wide a letter of a command is
	laneLetters = 44  // of other texts that are between two lifelines
)

// sequence is the diagram of a schedule while it is drawn. A command that is cut is in
// full in the title of its text.
type sequence struct {
	drawing
	verify.Diagram
	lanes  []float64 // of the clients, and then of the server
	y      float64   // of the event that is drawn
	paused map[int]float64
	ended  map[int]bool
}

// newSequence draws the events from top to bottom, and then the lifelines, down to below the
// last event. That of a client that dies has been ended by request.
func newSequence(title string, d verify.Diagram) *drawing {
	s := &sequence{
		Diagram: d,
		lanes:   lanesOf(len(d.Clients)),
		y:       head + 46,
		paused:  map[int]float64{},
		ended:   map[int]bool{},
	}
	s.Title = shown(title)
	s.Width = 2*laneMargin + laneGap*float64(len(d.Clients))
	s.fit("title", "start", title, 8, 22, titleRoom(s.Width))
	for i, name := range append(slices.Clone(d.Clients), "server") {
		s.fit("panel", "middle", name, s.lanes[i], head+20, laneLetters)
	}

	last := time.Duration(-1) // the time that was written last
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
	s.conclusion()
	s.Height = s.y
	return &s.drawing
}

// lanesOf are the places of so many clients' lifelines, and then of the server's. It
// stands in the middle, so that few arrows cross another lifeline.
func lanesOf(clients int) (lanes []float64) {
	left := (clients + 1) / 2 // clients on the left of the server
	for i := range clients {
		place := i
		if i >= left {
			place++
		}
		lanes = append(lanes, laneMargin+laneGap*float64(place))
	}
	return append(lanes, laneMargin+laneGap*float64(left))
}

func (s *sequence) server() float64 { return s.lanes[len(s.lanes)-1] }

// starred is a text without its asterisks, and whether it has some: they mark what
// happens to a client or a server.
func starred(text string) (happens string, is bool) {
	happens, is = strings.CutPrefix(text, "*")
	if is {
		happens = strings.TrimSuffix(happens, "*")
	}
	return happens, is
}

// event draws what happens to the server or to a client, or a request.
func (s *sequence) event(e verify.Event) {
	fault, isFault := starred(e.Does)
	switch {
	case e.Client < 0:
		reply, _ := starred(e.Reply)
		class := "fault"
		if e.Reply == verify.TimeGoesOn {
			class = "quiet"
		}
		s.beside(class, reply, s.server(), 1)

	case isFault:
		x := s.lanes[e.Client]
		s.beside("fault", fault, x, s.server()-x)
		// The word of packages verify/explore and internal/judge for the beginning of a pause.
		s.pause(e.Client, fault == "pauses")

	default:
		s.request(e)
	}
}

// pause begins the pause of a client, or ends the one in which it is: what happens to a
// client that pauses is that it goes on.
func (s *sequence) pause(client int, begins bool) {
	if from, paused := s.paused[client]; paused {
		s.stroke("paused", s.lanes[client], from, s.lanes[client], s.y)
		delete(s.paused, client)
	} else if begins {
		s.paused[client] = s.y
	}
}

// beside marks a place of a lifeline, and writes what happens there on one side of it.
func (s *sequence) beside(class, happens string, x, side float64) {
	s.Marks = append(s.Marks, mark{class, round1(x), round1(s.y)})
	anchor := "start"
	by := 10.0
	if side < 0 {
		anchor, by = "end", -10
	}
	s.fit(class, anchor, happens, x+by, s.y+4, laneLetters)
}

// request draws an arrow to the server, or to a cross on the way, with the command
// above it and the reply below. A fault stands in place of the reply, in the
// words of packages verify/explore and internal/judge: one that ends in "the client dies" ends
// the lifeline.
func (s *sequence) request(e verify.Event) {
	reply, isFault := starred(e.Reply)
	arrow := "line0"
	answer := "code quiet"
	if isFault {
		arrow, answer = "fault", "fault"
	} else if reply != "" {
		reply = "→ " + reply
	}

	// What is longer than the way between the two lanes is cut.
	client, server := s.lanes[e.Client], s.server()
	middle := (client + server) / 2
	room := int((math.Abs(server-client) - 24) / codeLetter)
	s.fit("code", "middle", e.Does, middle, s.y-6, room)
	if isFault && !reachesServer(reply) {
		s.lostArrow(arrow, client, client+(server-client)*0.7)
	} else {
		s.arrowTo(arrow, client, server)
	}
	s.fit(answer, "middle", reply, middle, s.y+13, room)

	if strings.HasSuffix(reply, "the client dies") {
		s.y += 8
		s.end(e.Client)
		s.write("fault", "middle", "✕", client, s.y+6)
	}
}

// reachesServer reports whether the server gets a request in spite of the fault, by the words
// with which packages verify/explore and internal/judge begin it.
func reachesServer(fault string) bool {
	return strings.HasPrefix(fault, "executed") || strings.HasPrefix(fault, "comes late") ||
		strings.HasPrefix(fault, "only this part")
}

// arrowTo draws an arrow with its head at the server.
func (s *sequence) arrowTo(class string, from, to float64) {
	back := math.Copysign(7, to-from)
	s.stroke(class, from, s.y, to, s.y)
	s.stroke(class, to-back, s.y-4, to, s.y, to-back, s.y+4)
}

// lostArrow draws an arrow that ends at a cross on the way to the server.
func (s *sequence) lostArrow(class string, from, to float64) {
	s.stroke(class, to-5, s.y-5, to+5, s.y+5)
	s.stroke(class, to-5, s.y+5, to+5, s.y-5)
	s.stroke(class, from, s.y, to, s.y)
}

// end draws a lifeline, down to where it ends.
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

// conclusion writes what each client was told, and the harm, below the lifelines. It moves y
// down, so these are drawn before. Whoever makes a diagram puts "Harm: " before a harm.
func (s *sequence) conclusion() {
	s.y += 24
	for _, text := range s.End {
		class := "name"
		if strings.HasPrefix(text, "Harm: ") {
			class = "harm"
		}
		lines := wrapped(shown(text), int((s.Width-16)/letter))
		for line := range strings.SplitSeq(lines, "\n") {
			s.write(class, "start", line, 8, s.y)
			s.y += 18
		}
	}
}
