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

// maxLength is the longest string, in bytes, and array, in elements, that Redis
// itself takes by default.
const maxLength = 512 << 20

var errProtocol = errors.New("not the Redis protocol")

// message is what one side says at once: a command, the answer to one, or
// something that nobody asked for.
type message struct {
	values []string // see Values; those of a command are its words
	raw    []byte   // its first byte is its kind: '*' an array, '>' a push, ...
}

// readCommand reads an array of bulk strings, as clients send it. Its name is
// then in lower case.
func readCommand(in *bufio.Reader) (message, error) {
	m, err := readValue(in, "*$")
	if err != nil {
		return message{}, err
	}
	if len(m.values) == 0 || m.raw[0] != '*' {
		return message{}, errProtocol
	}
	m.values[0] = strings.ToLower(m.values[0])
	return m, nil
}

// Commands reads the whole commands at the beginning of what a client sent, and
// returns what follows them. The names of commands are then in lower case.
func Commands(sent string) (commands [][]string, rest string) {
	in := bufio.NewReaderSize(strings.NewReader(sent), 64)
	rest = sent
	for {
		c, err := readCommand(in)
		if err != nil {
			return commands, rest
		}
		commands = append(commands, c.values)
		rest = rest[len(c.raw):]
	}
}

// Texts are the texts in what a server sent, without what only says where arrays begin.
func Texts(sent string) (values []string) {
	in := bufio.NewReader(strings.NewReader(sent))
	for {
		r, err := readReply(in)
		if err != nil {
			return values
		}
		values = append(values, r.values...)
	}
}

// namesOf names the commands of Redis that a client sent at once: "multi del exec". It
// is empty for other protocols.
func namesOf(piece []byte) string {
	commands, _ := Commands(string(piece))
	var names []string
	for _, c := range commands {
		names = append(names, c[0])
	}
	return strings.Join(names, " ")
}

// readReply reads one reply in version 2 or 3 of the protocol.
func readReply(in *bufio.Reader) (message, error) { return readValue(in, "+-:,#($=!*~>%|_") }

// readValue reads one value and all that it contains. A kind that is not allowed is an error
// of the protocol. The values of the message are flat: what contains what is lost. The kinds
// are also in announces, rewritten and ReplyLimit.endLine.
func readValue(in *bufio.Reader, allowed string) (message, error) {
	var m message
	// left is how many values are still to come, those inside others included.
	for left := 1; left > 0; left-- {
		line, err := readLine(in)
		if err != nil {
			return message{}, err
		}
		m.raw = append(m.raw, line...)

		kind, length, err := header(line)
		if err != nil || strings.IndexByte(allowed, kind) < 0 {
			return message{}, errProtocol
		}
		switch kind {
		case '_':
			m.values = append(m.values, "nil")
		case '+', '-', ':', ',', '#', '(':
			m.values = append(m.values, strings.TrimSuffix(line[1:], "\r\n"))
		case '$', '=', '!':
			if err := m.readString(in, kind, length); err != nil {
				return message{}, err
			}
		case '*', '~', '>':
			left += length
		case '%':
			left += 2 * length
		case '|': // attributes come before the value they belong to
			left += 2*length + 1
		}
	}
	return m, nil
}

// header reads the line with which a value begins: its kind, and the length of a string or
// an array. In version 2 one of less than nothing is nil, which version 3 has a kind for.
func header(line string) (kind byte, length int, err error) {
	kind = line[0]
	if !announces(kind) {
		return kind, 0, nil
	}

	length, err = strconv.Atoi(strings.TrimSpace(line[1:]))
	switch {
	case err != nil || length > maxLength:
		return 0, 0, errProtocol
	case length < 0:
		return '_', 0, nil
	}
	return kind, length, nil
}

// readString reads the rest of a string whose length is known.
func (m *message) readString(in *bufio.Reader, kind byte, length int) error {
	body := make([]byte, length+len("\r\n"))
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	m.raw = append(m.raw, body...)

	value := string(body[:length])
	if kind == '=' { // the kind of text comes first: "txt:"
		_, value, _ = strings.Cut(value, ":")
	}
	m.values = append(m.values, value)
	return nil
}

// readLine reads a line with its end, unless it is longer than any in the protocol.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > longestError:
			return "", errProtocol
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return string(line), err
	}
}

// answers knows which reply of a connection belongs to which command.
type answers struct {
	mu         sync.Mutex
	queue      []*awaited
	resp3      bool // in which what is pushed is of a kind of its own
	subscribed bool
}

type awaited struct {
	name    string
	replies int   // that belong to it
	trap    *Trap // that has caught it; nil: none
}

// expect is called before the command is sent.
func (a *answers) expect(words []string, trap *Trap) {
	a.mu.Lock()
	defer a.mu.Unlock()

	w := &awaited{name: words[0], replies: 1, trap: trap}
	a.resp3 = a.resp3 || w.name == "hello" && len(words) > 1 && words[1] == "3"
	if subscription(w.name) {
		a.subscribed = true
		w.replies = max(len(words)-1, 1) // one for each channel
	}
	a.queue = append(a.queue, w)
}

// match matches a reply with the command it answers, the oldest that waits. It returns the
// trap that has caught that command, if any, its name, and whether the reply is none: a
// message of a subscription. A push of another kind has no trap and no name either.
func (a *answers) match(m message) (trap *Trap, command string, isMessage bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	// In version 2 what is pushed is an array like any other, and its first word tells.
	kind := m.raw[0]
	first := ""
	if kind == '>' || kind == '*' && a.subscribed && !a.resp3 {
		first = strings.Join(m.values[:min(1, len(m.values))], "")
	}
	if strings.HasSuffix(first, "message") { // of a channel, a pattern or a shard's channel
		return nil, "", true
	}

	push := kind == '>' && first != "" || subscription(first)
	if len(a.queue) == 0 || push && !(subscription(first) && subscription(a.queue[0].name)) {
		return nil, "", false // a push of another kind, or nothing waits for a reply
	}

	// The first of several replies to a SUBSCRIBE answers the trap. An error is no push, and the
	// only reply.
	w := a.queue[0]
	trap = w.trap
	w.trap = nil
	w.replies--
	if w.replies == 0 || !push {
		a.queue = a.queue[1:]
	}
	return trap, w.name, false
}

// Psubscribe, unsubscribe, ...
func subscription(name string) bool { return strings.HasSuffix(name, "subscribe") }

// The commands by keys: none (scripts execute others), each argument (and with MSET,
// at worst, more), or the first.
var (
	keyless = strings.Fields("MULTI EXEC DISCARD UNWATCH EVAL EVALSHA EVAL_RO EVALSHA_RO " +
		"HELLO AUTH SELECT QUIT PING ECHO CLIENT TIME")
	manyKeys = strings.Fields("DEL UNLINK EXISTS MGET TOUCH WATCH MSET MSETNX")
	oneKey   = strings.Fields("GET SET SETNX SETEX PSETEX GETSET GETDEL GETEX DELEX APPEND STRLEN " +
		"INCR INCRBY DECR DECRBY " +
		"EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST TTL PTTL EXPIRETIME PEXPIRETIME TYPE " +
		"HGET HSET HSETNX HMSET HMGET HGETALL HDEL HEXISTS HINCRBY HKEYS HLEN HVALS HSCAN " +
		"HEXPIRE HPERSIST HTTL HPTTL HSETEX " +
		"LINDEX LPOS LINSERT LLEN LPOP LPUSH LRANGE LREM LSET LTRIM RPOP RPUSH " +
		"SADD SCARD SISMEMBER SMEMBERS SMISMEMBER SPOP SRANDMEMBER SREM SSCAN " +
		"ZADD ZCARD ZCOUNT ZINCRBY ZRANGE ZRANGEBYSCORE ZRANK ZREM " +
		"ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANK " +
		"ZSCORE ZMSCORE ZSCAN ZPOPMAX ZPOPMIN ZRANDMEMBER")
)

// KeysOf returns the keys that a command uses: a script and a transaction none, but what
// they execute. What publishes or subscribes uses the key "channels". It reports false
// for a command that it does not know: that may use any key.
func KeysOf(command string, args []string) (keys []string, known bool) {
	command = strings.ToUpper(command)
	switch {
	case slices.Contains(keyless, command):
		return nil, true
	case slices.Contains(manyKeys, command):
		return args, true
	case strings.HasSuffix(command, "SUBSCRIBE") || command == "PUBLISH":
		return []string{"channels"}, true
	}
	return args[:min(1, len(args))], slices.Contains(oneKey, command)
}

var blocking = strings.Fields("BLPOP BRPOP BLMOVE BLMPOP BRPOPLPUSH BZPOPMIN BZPOPMAX BZMPOP " +
	"XREAD XREADGROUP WAIT WAITAOF")

// Blocks reports whether a command may wait for somebody else.
func Blocks(command string) bool { return slices.Contains(blocking, strings.ToUpper(command)) }
