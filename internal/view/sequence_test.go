package view_test

import (
	"bytes"
	"encoding/xml"
	"html"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/verify"
)

// schedule has one event of each kind.
func schedule() verify.Diagram {
	long := "EVALSHA script-1 7 " + strings.Repeat("market: ", 12)
	return verify.Diagram{
		Clients: []string{"Alice", "Bob <script>", "Carol"},
		Events: []verify.Event{
			{At: time.Microsecond, Client: 0, Does: "MULTI"},
			{At: time.Microsecond, Client: 0, Does: "HGET users:2 funds"},
			{At: time.Microsecond, Client: 0, Does: "EXEC", Reply: "100"},
			{At: 2 * time.Microsecond, Client: 0, Does: "*pauses*"},
			{At: time.Second, Client: 1, Does: long, Reply: "*executed, the reply is lost*"},
			{At: 2 * time.Second, Client: -1, Reply: "*starts anew, empty*"},
			{At: 2 * time.Second, Client: -1, Reply: verify.TimeGoesOn},
			{At: 3 * time.Second, Client: 2, Does: "DEL lock:1", Reply: "*is lost, the connection breaks*"},
			{At: 4 * time.Second, Client: 2, Does: "SET lock:1\x1b[31m",
				Reply: "*executed, then the client dies*"},
			{At: 5 * time.Second, Client: 0, Does: "*wakes after 5s*"},
			{At: 6 * time.Second, Client: 0, Does: "GET lock:1"},
			{At: 6 * time.Second, Client: 0, Does: "*enters*"},
			{At: 6 * time.Second, Client: 0, Does: "*leaves*"},
		},
		End: []string{"Alice: is item 1 bought? yes", "Harm: sold twice: item 1 is in two places"},
	}
}

// A schedule is drawn with its faults and its harm: one request a transaction, an arrow
// that is cut where it does not arrive, and in full what is too long for its place.
func TestSequence(t *testing.T) {
	var out bytes.Buffer
	diagram := schedule()
	testkit.Succeeds(t, view.SVG(&out, view.Figure{Title: "three & a fault", Schedule: &diagram}))
	svg := out.String()

	for _, want := range []string{
		"three &amp; a fault", "Bob &lt;script&gt;", "MULTI HGET EXEC", "→ 100",
		`class="paused"`, ">pauses<", ">wakes after 5s<",
		">GET lock:1<", ">enters<", ">leaves<",
		">starts anew, empty<", "…<title>EVALSHA",
		`<text class="harm" text-anchor="start"`, ">✕<", ">4s<",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture does not hold %q", want)
		}
	}

	for _, unwanted := range []string{"\x1b", "time goes on", "<script>"} {
		if strings.Contains(svg, unwanted) {
			t.Errorf("the picture holds %q", unwanted)
		}
	}

	xmls := xml.NewDecoder(&out)
	for {
		_, err := xmls.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
	}
}

// Each schedule has a name of its own: its scheme's, or that of its program and its harm.
func TestSchedulesHaveNames(t *testing.T) {
	diagram := schedule()
	search := func(scheme, program string, harm verify.Harm) findings.Exploration {
		shortest := findings.ShortestHarm{Harm: harm, Diagram: &diagram}
		return findings.Exploration{Scheme: scheme, Program: program, ShortestHarm: shortest}
	}
	figures := view.Schedules(&findings.Explorations{Searches: []findings.Exploration{
		search("php lock.php", "lock", verify.Outlived),
		search("php lock.php", "lock", verify.FreedAnothers),
		search("php lock.php", "lock-works", verify.Outlived),
		search("php lock.php", "lock", verify.Outlived),
		search("set-px", "one-item", verify.SoldTwice),
		{Scheme: "set-px", Program: "one-account"},
	}})

	var names []string
	for _, f := range figures {
		names = append(names, f.Name)
	}
	want := "lock-outlived-its-lease lock-freed-anothers lock-works-outlived-its-lease lock-outlived-its-lease-2 set-px"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the schedules are %s, want %s", got, want)
	}
}

// Explorations are drawn in each form, the worst first.
func TestExplored(t *testing.T) {
	diagram := schedule()
	r := &findings.Explorations{
		Schema:  findings.ExplorationsSchema,
		Version: "v1",
		Searches: []findings.Exploration{
			{
				Scheme: "set-px", Program: "one-item",
				Searched: findings.Searched{Faults: 1, Schedules: 108, Harmful: 10},
				ShortestHarm: findings.ShortestHarm{
					Harm: verify.SoldTwice, Shows: "item 1", Token: "x5/a/b/c",
					Diagram: &diagram, Broken: "exclusive",
				},
			},
			{Scheme: "watch", Program: "one-item", Searched: findings.Searched{
				Preemptions: 2, Faults: 1, Schedules: 50, Points: 20, Lost: 1}},
			{Scheme: "etcd", Why: "its lock needs other servers"},
		},
	}

	// A shell and Markdown have other meanings for it.
	long := "x5/" + strings.Repeat("a_long*word/", 12) + "b c/d1.d2"
	r.Searches = append(r.Searches, findings.Exploration{Scheme: "set-px", Program: "two",
		ShortestHarm: findings.ShortestHarm{Harm: verify.SoldTwice, Token: long, Diagram: &diagram}})

	for name, write := range map[string]func(io.Writer, *view.Doc) error{
		"text": view.Text, "Markdown": view.Markdown,
		"HTML": func(w io.Writer, d *view.Doc) error { return view.HTML(w, d) },
	} {
		var out bytes.Buffer
		testkit.Succeeds(t, write(&out, view.Explored(r)))
		said := strings.ReplaceAll(strings.Join(strings.Fields(out.String()), " "), "&#34;", `"`)
		for _, want := range []string{
			"Every schedule: 3 searches of 3 schemes",
			`BROKEN PROMISE: set-px says "exclusive", and in one-item: sold twice`,
			"Harm was found in 2 of 3 searches.", "Nothing was found against watch.", "10 of 108",
			"except below 1", "not explored", "marketsim explore --replay x5/a/b/c",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %q:\n%s", name, want, out.String())
			}
		}

		line := "marketsim explore --replay '" + long + "'"
		if !strings.Contains(html.UnescapeString(out.String()), line) {
			t.Errorf("%s does not have the command on one line, ready for a shell:\n%s", name, out.String())
		}

		if drawn := strings.Contains(said, "<svg"); drawn != (name == "HTML") {
			t.Errorf("%s: a picture is drawn: %t", name, drawn)
		}
	}
}
