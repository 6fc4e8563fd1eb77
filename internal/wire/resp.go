package wire

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxLength is the longest string, in bytes, and array, in elements, that Redis itself takes by default.
const maxLength = 512 << 20

var errProtocol = errors.New("not the Redis protocol")

// command is one request.
type command struct {
	name string   // in lower case; empty for a request that Redis ignores
	args []string // what follows the name
	raw  []byte
}

// readCommand reads an array of bulk strings, or one line of words.
func readCommand(in *bufio.Reader) (command, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return command{}, err
	}
	c := command{raw: []byte(line)}
	words := strings.Fields(line)
	if line[0] == '*' {
		words, err = c.readWords(in, line)
	}
	if err != nil {
		return command{}, err
	}
	if len(words) > 0 {
		c.name, c.args = strings.ToLower(words[0]), words[1:]
	}
	return c, nil
}

func (c *command) readWords(in *bufio.Reader, line string) (words []string, err error) {
	n, err := length(line)
	for range n {
		if line, err = in.ReadString('\n'); err != nil {
			return nil, err
		}
		var size int
		if size, err = length(line); err != nil || line[0] != '$' || size < 0 {
			return nil, errProtocol
		}
		c.raw = append(c.raw, line...)
		text := make([]byte, size+2)
		if _, err = io.ReadFull(in, text); err != nil {
			return nil, err
		}
		c.raw = append(c.raw, text...)
		words = append(words, string(text[:size]))
	}
	return words, err
}

// reply is what a server says at once: the answer to a command, or a message that nobody asked for.
type reply struct {
	kind  byte   // its first byte: '*' an array, '>' a push, ...
	size  int    // of an array or push: its elements
	first string // of an array or push: the first of them, if it is a string
	raw   []byte
}

// readReply reads one reply in version 2 or 3 of the protocol.
func readReply(in *bufio.Reader) (reply, error) {
	var r reply
	for left, value := 1, 0; left > 0; value++ {
		line, err := in.ReadString('\n')
		if err != nil {
			return reply{}, err
		}
		r.raw = append(r.raw, line...)
		n, body := 0, ""
		switch line[0] {
		case '+', '-', ':', '_', ',', '#', '(':
		case '$', '=', '!', '*', '~', '>', '%', '|':
			if n, err = length(line); err != nil {
				return reply{}, err
			}
		default:
			return reply{}, errProtocol
		}
		left--
		switch line[0] {
		case '$', '=', '!':
			if body, err = r.readBody(in, n); err != nil {
				return reply{}, err
			}
		case '*', '~', '>':
			left += max(n, 0)
		case '%':
			left += 2 * max(n, 0)
		case '|': // attributes come before the value they belong to
			left += 2*max(n, 0) + 1
		}
		switch value {
		case 0:
			r.kind, r.size = line[0], n
		case 1:
			r.first = body
		}
	}
	return r, nil
}

// readBody reads a string of n bytes; a negative n is a null, which has none.
func (r *reply) readBody(in *bufio.Reader, n int) (string, error) {
	if n < 0 {
		return "", nil
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(in, body); err != nil {
		return "", err
	}
	r.raw = append(r.raw, body...)
	return string(body[:n]), nil
}

// length reads the number in a line such as "*3".
func length(line string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || n > maxLength {
		return 0, errProtocol
	}
	return n, nil
}

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

// take returns the traps of the command that the reply belongs to, and whether the reply is a message of a
// subscription or of client tracking.
func (a *answers) take(r reply) (traps []*Trap, message bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// In version 2 of the protocol what nobody asked for is an array like others, in version 3 a push.
	unasked := r.kind == '>' || r.kind == '*' && a.subscribed && !a.resp3 && (isMessage(r) || subscription(r.first))
	if unasked && isMessage(r) {
		return nil, true
	}
	if len(a.queue) == 0 || unasked && !(subscription(r.first) && subscription(a.queue[0].name)) {
		return nil, false // of another kind of push, or a farewell
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
	return r.kind == '>' && r.first == "invalidate" || r.size == 3 && (r.first == "message" || r.first == "smessage") || r.size == 4 && r.first == "pmessage"
}

func subscription(name string) bool {
	return slices.Contains([]string{
		"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe",
	}, name)
}
