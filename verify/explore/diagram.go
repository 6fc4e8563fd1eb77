package explore

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/search"
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
		n.Client = r.client
		n.commands = r.commands
		n.answer = string(r.answer)
		n.master = w.master(r.server)
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
	args[0] = strings.ToUpper(args[0])
	if strings.HasPrefix(args[0], "EVAL") {
		is := func(script string) bool {
			return args[1] == script || args[1] == redis.NewScript(script).Hash()
		}
		args[1] = fmt.Sprintf("script-%d", 1+slices.IndexFunc(w.scripts, is))
	}

	line := args[0] + " " + strings.Join(args[1:], " ")
	return strings.ReplaceAll(line, w.program.Prefix, "")
}

// names are how a server names a connection, and is told which one to end.
var names = regexp.MustCompile(`(?i)\bid[= ]\d+ addr[= ](\S+)( laddr[^\n]*\n)?`)

// diagram is what was noted, with tokens named by the order in which they came.
func (w *world) diagram(found []verify.Violation) (d verify.Diagram) {
	known := search.Labels{}
	connection := func(text string) string {
		return known.Of("connection", names.FindStringSubmatch(text)[1])
	}

	// does comes before reply: labels are numbered as a reader meets them.
	add := func(n noted, does, reply string) {
		does = names.ReplaceAllStringFunc(does, connection)
		reply = names.ReplaceAllStringFunc(reply, connection)
		does = known.Tokens(does)
		reply = known.Tokens(reply)
		d.Events = append(d.Events, verify.Event{At: n.At, Client: n.Client, Does: does, Reply: reply})
	}

	// A pipeline has an arrow for each command. The reply, which comes to all at once, stands
	// at the last.
	for _, n := range w.events {
		last := len(n.commands) - 1
		for _, command := range n.commands[:max(0, last)] {
			add(n, n.master+w.short(command), "")
		}
		if last >= 0 {
			n.Does = n.master + w.short(n.commands[last])
			n.Reply = cmp.Or(n.Reply, n.reply())
		}
		add(n, n.Does, n.Reply)
	}

	for i, c := range w.trial.Clients {
		d.Clients = append(d.Clients, c.Name)
		d.End = append(d.End, c.Name+": "+w.clients[i].outcome)
	}
	for _, v := range found {
		d.End = append(d.End, "Harm: "+v.String())
	}
	return d
}

// reply is the answer in words, of a transaction or pipeline without what only says that
// more comes.
func (n noted) reply() string {
	queued := func(value string) bool {
		return len(n.commands) > 1 && (value == "OK" || value == "QUEUED")
	}
	return strings.Join(slices.DeleteFunc(wire.Texts(n.answer), queued), " ")
}
