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

type command struct {
	name  string   // in lower case
	words []string // with it
	raw   []byte
}

// readCommand reads an array of bulk strings, as clients send it.
func readCommand(in *bufio.Reader) (command, error) {
	r, err := readKinds(in, "*$")
	if err != nil {
		return command{}, err
	}
	if len(r.values) == 0 || r.raw[0] != '*' {
		return command{}, errProtocol
	}
	r.values[0] = strings.ToLower(r.values[0])
	return command{r.values[0], r.values, r.raw}, nil
}

// Commands reads the whole commands at the beginning of what a client said, and returns what follows them.
func Commands(said string) (commands [][]string, rest string) {
	for in := bufio.NewReaderSize(strings.NewReader(said), 64); ; {
		c, err := readCommand(in)
		if err != nil {
			return commands, said
		}
		commands, said = append(commands, c.words), said[len(c.raw):]
	}
}

// Values are the texts in what a server said, without what only says where arrays begin.
func Values(said string) (values []string) {
	for in := bufio.NewReader(strings.NewReader(said)); ; {
		r, err := readReply(in)
		if err != nil {
			return values
		}
		values = append(values, r.values...)
	}
}

// namesOf names the commands of Redis that a client said at once: "multi del exec". It is empty for other protocols.
func namesOf(said []byte) string {
	commands, _ := Commands(string(said))
	var names []string
	for _, c := range commands {
		names = append(names, c[0])
	}
	return strings.Join(names, " ")
}

// reply is what a server says at once: the answer to a command, or a message that nobody asked for.
type reply struct {
	values []string // see Values
	raw    []byte   // its first byte is its kind: '*' an array, '>' a push, ...
}

// readReply reads one reply in version 2 or 3 of the protocol.
func readReply(in *bufio.Reader) (reply, error) { return readKinds(in, "+-:,#($=!*~>%|_") }

// readKinds reads what consists of values of some kinds.
func readKinds(in *bufio.Reader, kinds string) (reply, error) {
	var r reply
	for left := 1; left > 0; left-- {
		line, err := in.ReadString('\n')
		if err != nil {
			return reply{}, err
		}
		r.raw = append(r.raw, line...)
		kind, n := line[0], 0
		if strings.IndexByte("$=!*~>%|", kind) >= 0 {
			n, err = length(line)
			if err != nil {
				return reply{}, err
			}
		}
		if n < 0 { // as version 2 says it
			kind = '_'
		}
		switch {
		case strings.IndexByte(kinds, kind) < 0:
			return reply{}, errProtocol
		case kind == '_':
			r.values = append(r.values, "nil")
		case strings.IndexByte("+-:,#(", kind) >= 0:
			r.values = append(r.values, strings.TrimSuffix(line[1:], "\r\n"))
		case strings.IndexByte("$=!", kind) >= 0:
			body := make([]byte, n+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return reply{}, err
			}
			r.raw = append(r.raw, body...)
			value := string(body[:n])
			if kind == '=' { // the kind of text comes first: "txt:"
				_, value, _ = strings.Cut(value, ":")
			}
			r.values = append(r.values, value)
		case strings.IndexByte("*~>", kind) >= 0:
			left += n
		case kind == '%':
			left += 2 * n
		default: // attributes ('|') come before the value they belong to
			left += 2*n + 1
		}
	}
	return r, nil
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
	resp3      bool // in which what is pushed is of a kind of its own
	subscribed bool
}

type awaited struct {
	name    string
	replies int   // that belong to it
	trap    *Trap // that has caught it; nil: none
}

// expect is called before the command is sent.
func (a *answers) expect(c command, trap *Trap) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &awaited{name: c.name, replies: 1, trap: trap}
	a.resp3 = a.resp3 || c.name == "hello" && len(c.words) > 1 && c.words[1] == "3"
	if subscription(c.name) {
		a.subscribed = true
		w.replies = max(len(c.words)-1, 1) // one for each channel
	}
	a.queue = append(a.queue, w)
}

// take returns the trap that has caught the reply's command, if any, and whether it is a message of a subscription.
func (a *answers) take(r reply) (trap *Trap, message bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind, first := r.raw[0], ""
	if kind == '>' || kind == '*' && a.subscribed && !a.resp3 {
		first = strings.Join(r.values[:min(1, len(r.values))], "")
	}
	if strings.HasSuffix(first, "message") { // of a channel, a pattern or a shard's channel
		return nil, true
	}
	push := kind == '>' && first != "" || subscription(first)
	if len(a.queue) == 0 || push && !(subscription(first) && subscription(a.queue[0].name)) {
		return nil, false // of another kind of push, or a farewell
	}
	w := a.queue[0]
	trap, w.trap = w.trap, nil
	w.replies--
	if w.replies == 0 || !push {
		a.queue = a.queue[1:]
	}
	return trap, false
}

func subscription(name string) bool { return strings.HasSuffix(name, "subscribe") } // psubscribe, unsubscribe, ...

// The commands by keys: none (scripts execute others), each argument (and with MSET, at worst, more), or the first.
var (
	keyless = strings.Fields("MULTI EXEC DISCARD UNWATCH EVAL EVALSHA EVAL_RO EVALSHA_RO HELLO AUTH SELECT QUIT " +
		"PING ECHO CLIENT TIME")
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

// Keys returns the keys that a command uses: a script and a transaction none, but what they execute. What publishes or
// subscribes uses the key "channels". It reports false for a command that it does not know: that may use any key.
func Keys(command string, args []string) (keys []string, known bool) {
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
