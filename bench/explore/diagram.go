package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// String is the report for a terminal: each harm with its schedule and how to play it again, and always how far was looked.
func (r *Report) String() (text string) {
	of := r.Program.Subject + ", " + r.Program.Name
	for _, f := range r.Found {
		text += fmt.Sprintf("%s: harm with %s\n\n%s\nPlay it again: -replay %s\n\n", of, bounds(f.Preemptions, f.Faults),
			f.Diagram, f.Token)
	}
	return text + of + ": " + r.Bound()
}

func bounds(preemptions, faults int) string {
	return fmt.Sprintf("%d preemptions and %d faults", preemptions, faults)
}

// Bound is the sentence that belongs to each "nothing was found": how far was looked, and what was taken for granted.
func (r *Report) Bound() string {
	found, of, stopped := "nothing", "", ""
	if len(r.Found) > 0 {
		found = fmt.Sprintf("harm in %d", r.Harmful)
	}
	if r.Faults > 0 {
		of = " of " + strings.Trim(fmt.Sprint(r.Bounds.Of), "[]")
	}
	if r.Stopped != "" {
		stopped = "; stopped by " + r.Stopped
	}
	return fmt.Sprintf("%s in %d schedules: %s%s; requests are atomic and take no time but for pauses and delays; timers fire in "+
		"order; pushes arrive at once; the server is miniredis%s", found, r.Schedules, bounds(r.Preemptions, r.Faults), of, stopped)
}

// A Diagram is one schedule as people read it: time downwards, a column a client and one for the server.
type Diagram struct {
	Clients []string
	Rows    []Row
	End     []string // what each client was told, and what is wrong
}

// A Row is one command of a client and the reply to it, or a fault, which stands between asterisks.
type Row struct {
	At     time.Duration // since the schedule began
	Client int           // -1: it happens to the server
	Does   string
	Reply  string // or what happens to the server
}

// An event is something that has happened. What its rows show is made of it where somebody wants to see them.
type event struct {
	Row
	commands [][]string
	answer   string // to commands
}

// draw notes something.
func (w *world) draw(client int, does, reply string) {
	w.events = append(w.events, event{Row: Row{time.Since(w.begin), client, does, reply}})
}

// drawRequest notes the commands of a request, with the reply, or a fault, beside the last one.
func (w *world) drawRequest(r *request, fault string) {
	w.events = append(w.events, event{Row{time.Since(w.begin), r.client, "", fault}, r.commands, string(w.answer)})
}

// replies are the values in what a server sends; of several commands without what MULTI and those that it queues answer.
func replies(answer string, several bool) string {
	var values []string
	for line := range strings.SplitSeq(strings.TrimSpace(answer), "\r\n") {
		switch {
		case line == "_" || strings.HasSuffix(line, "-1") && strings.ContainsAny(line[:1], "$*"):
			line = "nil"
		case line == "" || strings.ContainsAny(line[:1], "$*%~>") || several && (line == "+OK" || line == "+QUEUED"):
			continue
		case strings.ContainsAny(line[:1], "+:,-"):
			line = line[1:]
		}
		values = append(values, line)
	}
	return strings.Join(values, " ")
}

// short is a command without the prefix of its keys, and with a script's number in place of the script.
func (w *world) short(command []string) string {
	args := slices.Clone(command)
	if strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") {
		is := func(script string) bool { return args[1] == script || args[1] == redis.NewScript(script).Hash() }
		args[1] = fmt.Sprintf("script-%d", 1+slices.IndexFunc(w.scripts, is))
	}
	return strings.ReplaceAll(strings.ToUpper(args[0])+" "+strings.Join(args[1:], " "), w.program.Prefix, "")
}

// diagram is what was noted, with tokens named by the order in which they came.
func (w *world) diagram(harms []Harm) (d Diagram) {
	tokens := map[string]string{}
	name := func(token string) string {
		if tokens[token] == "" {
			tokens[token] = fmt.Sprintf("token-%d", len(tokens)+1)
		}
		return tokens[token]
	}
	add := func(r Row, does, reply string) {
		r.Does, r.Reply = token.ReplaceAllStringFunc(does, name), token.ReplaceAllStringFunc(reply, name)
		d.Rows = append(d.Rows, r)
	}
	for _, e := range w.events {
		for _, command := range e.commands[:max(0, len(e.commands)-1)] {
			add(e.Row, w.short(command), "")
		}
		if n := len(e.commands); n > 0 {
			e.Does, e.Reply = w.short(e.commands[n-1]), cmp.Or(e.Reply, replies(e.answer, n > 1))
		}
		add(e.Row, e.Does, e.Reply)
	}
	for i, c := range w.trial.Clients {
		d.Clients, d.End = append(d.Clients, c.Name), append(d.End, c.Name+": "+w.clients[i].told)
	}
	for _, h := range harms {
		d.End = append(d.End, "Harm: "+h.Text)
	}
	return d
}

// String is the diagram as a table in Markdown with columns that a terminal shows, too, and a list of what came of it.
func (d Diagram) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	line := func(cells []string) { fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	head := slices.Concat([]string{"time"}, d.Clients, []string{"server"})
	line(head)
	line(slices.Repeat([]string{"---"}, len(head)))
	for i, r := range d.Rows {
		cells := make([]string, len(head))
		if cells[len(head)-1] = r.Reply; i == 0 || d.Rows[i-1].At != r.At {
			cells[0] = r.At.String()
		}
		if r.Client >= 0 {
			cells[1+r.Client] = r.Does
		}
		line(cells)
	}
	w.Flush()
	return b.String() + "\n- " + strings.Join(d.End, "\n- ") + "\n"
}
