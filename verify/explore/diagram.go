package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/wire"
)

// String is the report for a terminal: each harm with its schedule and how to play it again, and always how far was looked.
func (r *Report) String() (text string) {
	of := r.Program.Subject + ", " + r.Program.Name
	for _, f := range r.Found {
		text += fmt.Sprintf("%s: harm with %d preemptions and %d faults\n\n%s\nPlay it again: -replay %s\n\n", of, f.Preemptions,
			f.Faults, f.Diagram, f.Token)
	}
	return text + of + ": " + r.Bound()
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
	return fmt.Sprintf("%s in %d schedules: %d preemptions and %d faults%s; requests are atomic and take no time but for pauses and "+
		"delays; timers fire in order; pushes arrive at once; the server is miniredis%s",
		found, r.Schedules, r.Preemptions, r.Faults, of, stopped)
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

	commands [][]string // of a request, until a diagram is made of it
	answer   string
}

// draw notes what happens, with a request, if there is one, and the last reply.
func (w *world) draw(row Row, r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if row.At = time.Since(w.begin); r != nil {
		row.Client, row.commands, row.answer = r.client, r.commands, string(r.answer)
	}
	w.rows = append(w.rows, row)
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
		does, reply = token.ReplaceAllStringFunc(does, name), token.ReplaceAllStringFunc(reply, name)
		d.Rows = append(d.Rows, Row{At: r.At, Client: r.Client, Does: does, Reply: reply})
	}
	for _, r := range w.rows {
		for _, command := range r.commands[:max(0, len(r.commands)-1)] {
			add(r, w.short(command), "")
		}
		if last := len(r.commands) - 1; last >= 0 {
			queued := func(value string) bool { return last > 0 && (value == "OK" || value == "QUEUED") }
			values := slices.DeleteFunc(wire.Values(r.answer), queued)
			r.Does, r.Reply = w.short(r.commands[last]), cmp.Or(r.Reply, strings.Join(values, " "))
		}
		add(r, r.Does, r.Reply)
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
