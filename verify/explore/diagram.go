package explore

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// A noted event is kept for the diagram. If it is a request, its commands and
// its reply become text there.
type noted struct {
	verify.Event
	commands [][]string
	answer   string
	master   string // to which of several it was sent
}

// draw notes what happens, with a request, if there is one, and the last reply.
func (w *world) draw(event verify.Event, r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	event.At = time.Since(w.begin)
	n := noted{Event: event}
	if r != nil {
		n.Client, n.commands, n.answer, n.master = r.client, r.commands, string(r.answer), w.master(r.server)
	}
	w.events = append(w.events, n)
}

func (w *world) drawServer(s *Server, format string, args ...any) {
	w.draw(verify.Event{Client: nobody, Reply: w.master(s) + fmt.Sprintf(format, args...)}, nil)
}

// master is which one of several servers of the locks is meant, before what happens
// there. Empty: there is one at most.
func (w *world) master(s *Server) string {
	if w.program.LockServers < 2 || s.number == 0 {
		return ""
	}
	return fmt.Sprintf("master %d: ", s.number)
}

// short is a command without the prefix of its keys, and with a script's number
// in place of the script.
func (w *world) short(command []string) string {
	args := slices.Clone(command)
	if strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") {
		is := func(script string) bool { return args[1] == script || args[1] == redis.NewScript(script).Hash() }
		args[1] = fmt.Sprintf("script-%d", 1+slices.IndexFunc(w.scripts, is))
	}
	return strings.ReplaceAll(strings.ToUpper(args[0])+" "+strings.Join(args[1:], " "), w.program.Prefix, "")
}

// names are how a server names a connection, and is told which one to end.
var names = regexp.MustCompile(`(?i)\bid[= ]\d+ addr[= ](\S+)( laddr[^\n]*\n)?`)

// numbered names things by the order in which they come.
type numbered map[string]string

func (n numbered) name(kind, of string) string {
	if n[of] == "" {
		n[of] = fmt.Sprintf("%s-%d", kind, len(n)+1)
	}
	return n[of]
}

func (n numbered) tokens(text string) string {
	return token.ReplaceAllStringFunc(text, func(is string) string { return n.name("token", is) })
}

// Tokens names what looks like a token in the texts of a diagram, by the order
// in which they come.
func Tokens() func(text string) string { return numbered{}.tokens }

// diagram is what was noted, with tokens named by the order in which they came.
func (w *world) diagram(found []verify.Violation) (d verify.Diagram) {
	known := numbered{}
	connection := func(text string) string { return known.name("connection", names.FindStringSubmatch(text)[1]) }
	add := func(n noted, does, reply string) {
		does, reply = names.ReplaceAllStringFunc(does, connection), names.ReplaceAllStringFunc(reply, connection)
		does, reply = known.tokens(does), known.tokens(reply)
		d.Events = append(d.Events, verify.Event{At: n.At, Client: n.Client, Does: does, Reply: reply})
	}
	for _, n := range w.events {
		for _, command := range n.commands[:max(0, len(n.commands)-1)] {
			add(n, n.master+w.short(command), "")
		}
		if last := len(n.commands) - 1; last >= 0 {
			queued := func(value string) bool { return last > 0 && (value == "OK" || value == "QUEUED") }
			values := slices.DeleteFunc(wire.Values(n.answer), queued)
			n.Does = n.master + w.short(n.commands[last])
			n.Reply = cmp.Or(n.Reply, strings.Join(values, " "))
		}
		add(n, n.Does, n.Reply)
	}
	for i, c := range w.trial.Clients {
		d.Clients, d.End = append(d.Clients, c.Name), append(d.End, c.Name+": "+w.clients[i].told)
	}
	for _, v := range found {
		d.End = append(d.End, "Harm: "+v.String())
	}
	return d
}
