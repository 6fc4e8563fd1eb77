package wire

import (
	"bufio"
	"slices"
	"sync"
)

// answers knows which reply of a connection belongs to which command.
type answers struct {
	mu         sync.Mutex
	queue      []*awaited
	resp3      bool // the server speaks version 3, where a message has a kind of its own
	subscribed bool // the client has subscribed to something
}

// awaited is a command whose reply has not come.
type awaited struct {
	name    string
	replies int // that belong to it
	traps   []*Trap
}

// expect is called before the command is sent.
func (a *answers) expect(c command, traps []*Trap) {
	if c.name == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &awaited{name: c.name, replies: 1, traps: traps}
	if subscription(c.name) {
		a.subscribed = true
		w.replies = max(len(c.args), 1) // one for each channel
	}
	a.queue = append(a.queue, w)
}

// take returns the traps of the command that the reply belongs to, and whether the reply is a message of a subscription.
func (a *answers) take(r reply) (traps []*Trap, message bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	unasked := r.kind == '>' || r.kind == '*' && a.subscribed && !a.resp3 && (isMessage(r) || subscription(r.first))
	if unasked && isMessage(r) {
		return nil, true
	}
	if len(a.queue) == 0 || unasked && !(subscription(r.first) && subscription(a.queue[0].name)) {
		return nil, false // of another kind of push, such as invalidation, or a farewell
	}
	w := a.queue[0]
	if traps, w.traps = w.traps, nil; w.name == "hello" {
		a.resp3 = r.kind == '%'
	}
	if w.replies--; w.replies == 0 || !unasked {
		a.queue = a.queue[1:]
	}
	return traps, false
}

func isMessage(r reply) bool {
	return r.size == 3 && (r.first == "message" || r.first == "smessage") || r.size == 4 && r.first == "pmessage"
}

func subscription(name string) bool {
	return slices.Contains([]string{
		"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe",
	}, name)
}

// resp is the traffic of one connection to Redis.
type resp struct {
	proxy *Proxy
	conn  *conn
	answers
}

// up passes commands on, each by itself.
func (s *resp) up() {
	in := bufio.NewReaderSize(s.conn.client, bufferSize)
	for {
		c, err := readCommand(in)
		if err != nil {
			s.conn.hangUp()
			return
		}
		var replies []*Trap
		last := false
		for _, t := range s.proxy.meet(s.conn.number, c) {
			switch {
			case t.reply:
				replies = append(replies, t)
				last = last || t.lose
			case !t.spring(s.conn):
				s.conn.hangUp()
				return
			}
		}
		s.expect(c, replies)
		if s.conn.toServer.write(c.raw) != nil || last {
			return
		}
	}
}

// down passes replies on, each by itself.
func (s *resp) down() {
	in := bufio.NewReaderSize(s.conn.server, bufferSize)
	for {
		r, err := readReply(in)
		if err != nil {
			s.conn.await()
			return
		}
		traps, message := s.take(r)
		for _, t := range traps {
			if !t.spring(s.conn) {
				return
			}
		}
		if message && s.proxy.isDeaf() {
			continue
		}
		_ = s.conn.toClient.write(r.raw) // as in bytes.down
	}
}
